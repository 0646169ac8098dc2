"""Every Redis key and channel, through one function that puts the queue into a hash tag.

P is `<prefix>{<queue>}:`. Delivery, in both modes that use Redis (the ready set is called `offered` in mode `redis`):

| key | type | meaning |
|---|---|---|
| `P pending` or `P offered` | ZSET id → rank | candidates for workers, the best rank first |
| `P scheduled` | ZSET id → due ms | hints for the promoter, in mode `postgres+redis` |
| `P generation` | string | run id of the server, a random part; missing or foreign = rebuild |
| `<prefix>generation` | string | the same for the server; missing or another one = look at all `P generation` |
| `<prefix>identity` | string | a random text that the database of mode `postgres+redis` has, too |
| `<prefix>identity:confirmed` | string | the address of that database, while a process has seen so lately; expires |
| `<prefix>identity:other_database` | string | another database whose processes use this Redis, too; expires |
| `<prefix>identity:checked` | string | there while a process has compared lately: the others need not; expires |
| `<prefix>identity:other_redis` | string | the address of another Redis that processes of that database use; expires |
| `<prefix>probe` | – | never there; a write that would change it shows whether the server writes |
| `P event_seq` | string | number of the last message of events |
| `P waiters` | ZSET id → ms | jobs whose end is waited for; expires |
| `P sleepers` | string | on a cluster: workers wait for messages of this queue's offers; expires |
| `<prefix>wakeups` | channel | on a cluster: the queue of each such offer |
| `<prefix>events` | channel | lifecycle events (queue_core.model.events) |
| `<prefix>progress` | channel | progress alone |
| `P job:<id>:done` | channel | a message when the job has finished; its end, where its queue publishes results |

Channels do not belong to a database of the server as keys do: in database n > 0 their names end in `@n`.
On a cluster what has `operation` in its name begins with `<prefix>{:operations:}`, identities begin with
`<prefix>{:identity:}`, and P without a queue is
`<prefix>{:none:}:`.

The store of mode `redis`; all its times are microseconds since the epoch by the server's clock, below 2^53. Where a job
has gone to another queue, its key keeps only a field `moved`, for a day:

| key | type | meaning |
|---|---|---|
| `P job:<id>` | HASH | the fields of queue_core.model.job.Job, without those in the key and empty ones |
| `P attempts:<id>` | LIST | failed attempts, the last 50 |
| `P log:<id>` | LIST | lines that its handlers wrote, the last 1,000 |
| `P pending` | ZSET id → rank | queued jobs that are ready |
| `P blocked` | ZSET id → due | queued jobs that wait for their ordering key |
| `P admitted` | ZSET ordering key, id | jobs that their ordering keys have admitted |
| `P order_wait` | ZSET ordering key, arrival, rank, id | those in `blocked`, in the order of their arrival |
| `P scheduled`, `P retrying` | ZSET id → due | waiting for their time |
| `P running` | ZSET id → time | running jobs by the end of their lease |
| `P unfinished` | ZSET id → time | all of these by their last change |
| `P completed`, `P cancelled` | ZSET id → time | by their end; go after their retention |
| `P dlq`, `P trash` | ZSET id → time | by their death, by their deletion |
| `P by_type:<type>` | SET | ids of all jobs of a type |
| `P types` | HASH type → n | waiting jobs |
| `P depths` | HASH priority → n | queued jobs (`q5`); scheduled and retrying ones (`d5`) |
| `P unique` | HASH unique key → id | the job that holds it, if it is unfinished or has an entry in: |
| `P unique_expires` | ZSET unique key → time | until when it is held, whatever became of the job |
| `P rate` | HASH | tokens of the queue's rate, and of which time |
| `P arrival` | string | the last arrival, where jobs age |
| `P capacity_answer` | string | answer to the last question whether capacity was free; expires |
| `P cancelling` | HASH id → worker | running jobs with a cancel request |
| `P errors` | HASH id → signature, type | dead jobs |
| `P signatures`, `P last_seen` | HASH, ZSET signature → time | first seen and title; last seen; 10,000 at most |
| `P deaths` | ZSET minute, signature → minute and n | deaths of the last two days |
| `P signature_releases`, `P type_releases` | HASH | deaths of each signature, and ends of each type, by release |
| `P minutes` | ZSET minute, outcome → minute and n | totals of the last two days |
| `P tallies` | HASH | totals by outcome and type since the store was made |
| `P paused`, `P closed` | string | there while the queue is paused, while it takes no new jobs |
| `P schedule:<name>` | HASH | the fields of a schedule, its next and its last tick |
| `P ticks` | ZSET schedule → time | next ticks of the schedules that are not paused |
| `P fired:<schedule>` | ZSET time, job → time | ticks that have fired |
| `P outgoing` | HASH name → JSON | on a cluster: moves to queues of other slots that have not ended |
| `P transit:<name>:…` | as above | on a cluster: the jobs of such a move, on their way |
| `P operation:<number>` | HASH | on a cluster: the step of an operation that may change jobs here; expires |
| `P operation:<number>:changed` | string | on a cluster: the members that it has changed here; expires |
| `P confirming` | string | written where replicas are asked whether they have all before it; expires |
| `P seq`, `P token` | string | the last order of arrival, the time of the last lease token |
| `<prefix>queues` | SET | names of all queues |
| `<prefix>workers` | HASH worker → entry | goes a day after the last heartbeat |
| `<prefix>residents:<place>` | HASH worker → process | the workers on a machine; they write it again where it is gone |
| `<prefix>announced` | HASH type → time, JSON Schema | what workers announced of types |
| `<prefix>releases` | HASH name → number, place, time | the releases of workers in their order; the last number |
| `<prefix>signature_states` | HASH signature → operation, JSON | what operators have set of signatures |
| `<prefix>saved_filters` | HASH name → operation, JSON | filters that operators have saved |
| `<prefix>schedules` | HASH schedule → queue | the queue of each schedule |
| `<prefix>operation:<number>` | HASH | the fields of an operation, and of the step that is being taken |
| `<prefix>operation:<number>:members` | LIST | of each member token, place and queue as of when it was frozen |
| `<prefix>operation:<number>:ids` | SET | their ids, while it is preparing |
| `<prefix>operation:<number>:changed` | string | `1` at the place of each member that it has changed |
| `<prefix>operations` | ZSET number → number | all of them; those that have not ended in `operations:unfinished` |
| `<prefix>operations:of:<signature>` | ZSET number → number | those on all jobs of an error |
| `<prefix>operations:preparing`, `<prefix>operations:ended` | ZSET number → time | by their last change |
| `<prefix>operations_of:<id>` | ZSET number → number | the operations that have changed a job, the last 1,000 |
| `<prefix>operations:uncounted` | ZSET number → number | retries of which some outcomes are not known yet |
| `<prefix>operation_number` | string | the last number of an operation |
| `<prefix>stacks:<id>` | HASH number → JSON | the last stacks of a running job: worker, times, answer; expires |
| `<prefix>stacks:asked:<worker>` | HASH number → id | those that its worker is asked for; expires |
| `<prefix>stacks:number` | string | the last number of a stack |
| `<prefix>leaders` | HASH duty → time, worker | which worker leads until when |
| `<prefix>hints:{due}` | ZSET queue → time | when the first scheduled or retrying job is due, or before |
| `<prefix>hints:{leases}` | ZSET queue → time | when the first lease ends, or before |
| `<prefix>schema` | string | version of all this |
| `<prefix>notifications` | channel | messages between processes (queue_core.stores.redis.delivery); not for others |
"""

from __future__ import annotations

from collections.abc import Iterable


class Keys:
    """The keys under one prefix, which ends in a colon or is empty, and the channels of one database."""

    def __init__(self, prefix: str, database: int = 0) -> None:
        self._prefix = prefix
        self._channel_end = f"@{database}" if database else ""
        self.events = f"{prefix}events{self._channel_end}"
        self.progress = f"{prefix}progress{self._channel_end}"
        self.notifications = f"{prefix}notifications{self._channel_end}"
        self.generation = f"{prefix}generation"
        self.identity = f"{prefix}identity"
        self.confirmed = f"{prefix}identity:confirmed"
        self.other_database = f"{prefix}identity:other_database"
        self.checked = f"{prefix}identity:checked"
        self.other_redis = f"{prefix}identity:other_redis"
        self.probe = f"{prefix}probe"
        self.queues = f"{prefix}queues"
        self.workers = f"{prefix}workers"
        self.leaders = f"{prefix}leaders"
        self._residents = f"{prefix}residents:"
        self.announced = f"{prefix}announced"
        self.releases = f"{prefix}releases"
        self.signature_states = f"{prefix}signature_states"
        self.saved_filters = f"{prefix}saved_filters"
        self.schedules = f"{prefix}schedules"
        self.operations = f"{prefix}operations"
        self.operation_number = f"{prefix}operation_number"
        self.schema = f"{prefix}schema"

    def of(self, queue: str, name: str) -> str:
        """Return the key of this name of a queue."""
        return f"{self._prefix}{{{queue}}}:{name}"

    def workers_of_place(self, name: str) -> str:
        """Return the key of the workers at a place."""
        return self._residents + name

    def hints(self, name: str) -> str:
        """Return the key of the hints of this name, which has a hash tag of its own."""
        return f"{self._prefix}hints:{{{name}}}"

    def jobs(self, queue: str, ids: Iterable[str]) -> list[str]:
        """Return the keys of jobs' hashes."""
        start = self.of(queue, "job:")
        return [start + job_id for job_id in ids]

    def operation(self, number: int, name: str = "") -> str:
        """Return the key of an operation, or of what belongs to it under this name."""
        return f"{self._prefix}operation:{number}:{name}" if name else f"{self._prefix}operation:{number}"

    def operations_in(self, name: str) -> str:
        """Return the key of some operations: unfinished, preparing, ended, or of:<signature>."""
        return f"{self.operations}:{name}"

    def operations_of(self, ids: Iterable[str]) -> list[str]:
        """Return the keys of the operations that have changed jobs."""
        return [f"{self._prefix}operations_of:{job_id}" for job_id in ids]

    def stacks(self, name: str) -> str:
        """Return the key of the stacks of a job, of asked:<worker>, or of their number."""
        return f"{self._prefix}stacks:{name}"

    def done_parts(self, queue: str) -> tuple[str, str]:
        """Return the text before and after the id in a queue's done channels."""
        return self.of(queue, "job:"), f":done{self._channel_end}"

    def done(self, queue: str, job_id: str) -> str:
        """Return the channel with a message when a job has finished."""
        before, after = self.done_parts(queue)
        return f"{before}{job_id}{after}"

    def queue_of(self, key: str, name: str) -> str:
        """Return the queue of a key that `of` made."""
        return key[len(self._prefix) + 1 : -len(name) - 2]


class ClusterKeys(Keys):
    """The same on a cluster, where scripts name keys of one slot alone.

    What belongs to operations is in one slot, and so is what is kept of the pairing, and what belongs to no queue.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        self._tagged = f"{prefix}{{:operations:}}"
        self.wakeups = f"{prefix}wakeups"
        self.operations = f"{self._tagged}operations"
        pairing = f"{prefix}{{:identity:}}"
        self.identity, self.confirmed = f"{pairing}identity", f"{pairing}confirmed"
        self.other_database, self.other_redis = f"{pairing}other_database", f"{pairing}other_redis"

    def of(self, queue: str, name: str) -> str:
        """Return the key of this name of a queue; empty braces would be no hash tag."""
        return super().of(queue or ":none:", name)

    def operation(self, number: int, name: str = "") -> str:
        """Return the key of an operation, or of what belongs to it under this name."""
        return f"{self._tagged}operation:{number}:{name}" if name else f"{self._tagged}operation:{number}"

    def operations_of(self, ids: Iterable[str]) -> list[str]:
        """Return the keys of the operations that have changed jobs."""
        return [f"{self._tagged}operations_of:{job_id}" for job_id in ids]

    def done_parts(self, queue: str) -> tuple[str, str]:
        """Return the text before and after the id in a queue's done channels, which have no slot."""
        return super().of(queue, "job:"), ":done"
