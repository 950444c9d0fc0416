"""Read and write DomainBed's sweeps: its tables from its files, its runs as trials of ours and back."""

from domainwise.interop.domainbed.read import Sweep, read
from domainwise.interop.domainbed.tables import Table, tables
from domainwise.interop.domainbed.trials import convert, export

__all__ = ["Sweep", "Table", "convert", "export", "read", "tables"]
