"""Run many trials: in processes, on GPUs, with Ray, and in one shared folder."""
