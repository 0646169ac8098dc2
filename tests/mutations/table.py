"""All mutants by their names."""

from __future__ import annotations

from tests.mutations.console import CONSOLE
from tests.mutations.mutant import Mutant
from tests.mutations.others import MEMORY, SQLITE
from tests.mutations.postgres import POSTGRES
from tests.mutations.redis import REDIS
from tests.mutations.worker import ABOVE

MUTANTS: dict[str, Mutant] = {one.name: one for one in (*POSTGRES, *REDIS, *SQLITE, *MEMORY, *ABOVE, *CONSOLE)}
"""The fence, the epoch, the re-offer, leases, gates, lost settles, blame, priorities, ordering, limits, retention."""
