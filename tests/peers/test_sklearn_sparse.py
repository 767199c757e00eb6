"""The tests in sklearn.svm.tests.test_sparse that use SVC or LinearSVC, with our stand-ins in their place."""

from theirs import played

globals().update(played("sklearn.svm.tests.test_sparse"))
