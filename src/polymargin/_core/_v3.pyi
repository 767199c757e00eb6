from polymargin._core._baseline import *  # noqa: F403
