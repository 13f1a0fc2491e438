from harness.api import *  # noqa: F403  what there is at run time too

__version__: str
