"""Engines that carry work to several processes or machines."""
