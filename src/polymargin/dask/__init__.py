"""The machines of polymargin on Dask: ``from polymargin.dask import CrammerSingerSVC``; needs ``polymargin[dask]``."""

from polymargin.dask.machines import CrammerSingerSVC, LpNormSVC, MultiLabelSVC, TopKSVC, WestonWatkinsSVC

__all__ = ["CrammerSingerSVC", "LpNormSVC", "MultiLabelSVC", "TopKSVC", "WestonWatkinsSVC"]
