"""Distances between class vectors."""
