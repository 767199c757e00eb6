"""The tests in sklearn.feature_selection.tests.test_rfe that use SVC or LinearSVC, with our stand-ins in their place."""

from theirs import played

globals().update(played("sklearn.feature_selection.tests.test_rfe"))
