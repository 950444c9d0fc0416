"""DomainBed's sweeps, read and written: its tables from its files, its trials as ours, ours as its."""

from domainwise.interop.domainbed.convert import convert
from domainwise.interop.domainbed.export import export
from domainwise.interop.domainbed.read import Sweep, read
from domainwise.interop.domainbed.tables import Table, tables

__all__ = ["Sweep", "Table", "convert", "export", "read", "tables"]
