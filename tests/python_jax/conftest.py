"""Sets up JAX for all tests of this folder: the CPU, as four devices. STEPFUSE_TEST_DEVICE=cuda adds a GPU, for test_gpu.py."""

import os
import sys
import pathlib

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cuda,cpu" if os.environ.get("STEPFUSE_TEST_DEVICE") == "cuda" else "cpu"
sys.path.append(str(pathlib.Path(__file__).parent))
