"""Sets up JAX for all tests of this folder: the CPU, as four devices."""

import os
import sys
import pathlib

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.append(str(pathlib.Path(__file__).parent))
