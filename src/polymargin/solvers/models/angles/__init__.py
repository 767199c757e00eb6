"""AngularSVC: start, models, descent."""
