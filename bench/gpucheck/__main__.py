import sys
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from gpucheck import cli

sys.exit(cli.main(BENCH.parent))
