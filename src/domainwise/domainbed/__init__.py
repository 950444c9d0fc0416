"""DomainBed's sweeps, read and written: its tables from its files, its trials as ours, ours as its."""

from domainwise.domainbed.convert import convert
from domainwise.domainbed.export import export
from domainwise.domainbed.read import Sweep, read
from domainwise.domainbed.tables import Table, tables

__all__ = ["Sweep", "Table", "convert", "export", "read", "tables"]
