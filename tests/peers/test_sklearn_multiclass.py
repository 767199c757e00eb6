"""The tests in sklearn.tests.test_multiclass that use SVC or LinearSVC, with our stand-ins in their place."""

from theirs import played

globals().update(played("sklearn.tests.test_multiclass"))
