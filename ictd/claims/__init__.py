"""Claims of the book, checked where they are made: random instances, the error found, the tolerance.

A chapter states a claim with `holds`; ``ictd verify`` checks those of `ictd.claims.verify`.
"""

from ictd.claims.instances import random_instance, random_instances
from ictd.claims.statement import Claim, chance_interval, holds, relative_error

__all__ = ["Claim", "chance_interval", "holds", "random_instance", "random_instances", "relative_error"]
