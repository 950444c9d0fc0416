"""Many trials: processes, GPUs, Ray and one shared folder."""
