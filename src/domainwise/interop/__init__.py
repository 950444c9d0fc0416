"""Files for and from other programs: DomainBed and TensorBoard; and the check of a folder's own files."""
