"""The search stacks under test; of the harness they know ``harness.core`` alone.

None of them, and no process that one starts, sends anything: onnxruntime reports events of each
session to its maker unless it is told before it is loaded.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
