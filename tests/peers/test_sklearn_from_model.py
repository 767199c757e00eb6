"""The tests in sklearn.feature_selection.tests.test_from_model that use SVC or LinearSVC, with our stand-ins."""

from theirs import played

globals().update(played("sklearn.feature_selection.tests.test_from_model"))
