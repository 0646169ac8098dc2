"""Mutants of the store on Redis."""

from __future__ import annotations

from tests.mutations.mutant import STORES, Mutant, Patch, on

LUA = f"{STORES}/redis/lua"


def lua(name: str, module: str, block: str, tests: str, *patches: Patch) -> Mutant:
    """Return a mutant that the conformance suite has to see."""
    paths = tuple(f"conformance/test_{test}.py" for test in tests.split())
    return Mutant(f"redis-{name}", f"{LUA}/{module}.lua", patches, paths, on("redis"), block)


def alone(name: str, module: str, block: str, tests: tuple[str, ...], *patches: Patch) -> Mutant:
    """Return a mutant that tests of this store have to see."""
    return Mutant(f"redis-{name}", f"{LUA}/{module}.lua", patches, tests, "", block)


def delivered(name: str, block: str, tests: str, *patches: Patch) -> Mutant:
    """Return a mutant of what events are published with, that tests of delivery have to see."""
    file = "queue_core/delivery/redis/lua/redis_events.lua"
    return Mutant(f"redis-{name}", file, patches, (f"redis/{tests}.py",), "", block)


REDIS = (
    delivered(
        "omits-what-is-waited-for",
        "count_listeners",
        "test_traps_events",
        ("ARGV[2] == '1' and redis.call('EXISTS', unpack(KEYS)) or 0", "0"),
    ),
    lua("fence", "settle", "fence", "stale", ("status == 'running' and held == token", "status == 'running'")),
    alone("repeated-outcomes", "settle", "fence", ("redis/store/test_traps.py",), ("and 2 or 0", "and 0 or 0")),
    lua("only-the-last-end-is-known", "settle", "fence", "stale", ("' ', -168)", "' ', -21)")),
    alone(
        "written-off-of-others",
        "settle",
        "end_leases",
        ("redis/store/test_swept.py",),
        ("if status == 'running' and worker == ARGV[1] then", "if status == 'running' then"),
    ),
    lua(
        "each-of-a-unique-key-needs-room",
        "capacity",
        "check_capacity",
        "limits",
        ("new = not requested[unique] and not holder_of", "new = not holder_of"),
    ),
    lua("fence-of-heartbeats", "claim", "extend", "stale extend", (" and token == ARGV[a + 2] and", " and")),
    alone(
        "reclaim-of-later-claims",
        "settle",
        "reclaim",
        ("redis/store/test_swept.py",),
        ("elseif job[2] == token and number(job[3]) < now and", "elseif"),
    ),
    alone(
        "reclaim-of-living-leases",
        "settle",
        "reclaim",
        ("redis/store/test_swept.py",),
        ("and number(job[3]) < now and", "and"),
    ),
    lua("blame-before-the-start", "settle", "reclaim", "begin", ("job[11] and 0 or 1", "1")),
    lua(
        "bound-of-losses", "settle", "reclaim", "reclaim", ("losses >= tonumber(ARGV[3])", "losses > tonumber(ARGV[3])")
    ),
    lua(
        "cancel-request-is-forgotten",
        "settle",
        "requeue",
        "cancel settle",
        ("    if job[4] then\n", "    if false then\n"),
    ),
    lua(
        "cancel-requests-outlive-attempts-that-were-lost",
        "settle",
        "reclaim",
        "cancel",
        ("    redis.call('HDEL', KEYS[6], id)\n    if started", "    if started"),
    ),
    lua(
        "purge-takes-the-key-of-another",
        "change",
        "remove",
        "unique",
        ("unique ~= '' and redis.call('HGET', KEYS[9], unique) == id and", "unique ~= '' and"),
    ),
    delivered("announced-without-number", "announce", "test_announcing", ("'INCR', KEYS[2])", "'GET', KEYS[2]) or 0")),
    delivered(
        "waits-are-kept-for-ever",
        "expect",
        "test_traps_results",
        ("redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)\n", ""),
    ),
    alone(
        "epoch", "claim", "claim", ("redis/store/test_traps.py",), ("digits(last) .. epoch", "digits(last) .. '000'")
    ),
    alone(
        "tokens-by-the-clock-alone",
        "claim",
        "claim",
        ("redis/store/test_traps.py",),
        ("math.max(now, number(redis.call('GET', KEYS[6])) + 1) - 1", "now - 1"),
        ("math.max(last, number(string.sub(job[14] or '0', 1, 16))) + 1", "last + 1"),
    ),
    lua(
        "paused-queues-give",
        "claim",
        "claim",
        "pause claim",
        ("if redis.call('EXISTS', KEYS[1]) == 1 then", "if false then"),
    ),
    lua("nominated-in-their-order", "claim", "claim", "claim", ("if not sorted then", "if false then")),
    lua("types-of-others", "claim", "claim", "claim", ("not seen[id] and (every or wanted[job[2]])", "not seen[id]")),
    lua(
        "gate-of-ordering-keys",
        "claim",
        "claim",
        "ordering",
        ("and not (job[11] and redis.call('ZSCORE', KEYS[9], id)) then", "then"),
    ),
    alone(
        "claims-are-given-once",
        "claim",
        "claim",
        ("redis/store/test_traps.py",),
        ("job[15] == name then", "false then"),
    ),
    lua(
        "concurrency-has-no-end",
        "capacity",
        "allowance",
        "gated",
        ("concurrency - redis.call('ZCARD', running)", "concurrency"),
    ),
    lua(
        "rates-have-no-end",
        "capacity",
        "allowance",
        "gated",
        ("math.min(starting, math.floor(tokens + 1e-9))", "starting"),
    ),
    lua("rates-are-claimed-ahead", "capacity", "allowance", "gated", ("burst - per_second * ahead_seconds", "burst")),
    lua(
        "keys-let-all-through",
        "capacity",
        "ordering",
        "ordering",
        ("return most - redis.call('ZLEXCOUNT', admitted,", "return 1000 - redis.call('ZLEXCOUNT', admitted,"),
    ),
    lua(
        "unique-keys-have-no-holder",
        "capacity",
        "unique",
        "unique",
        ("return id and redis.call('ZSCORE', unfinished, id) and id", "return nil"),
    ),
    lua(
        "queues-have-no-limit",
        "capacity",
        "check_capacity",
        "limits",
        ("waiting[limit] + coming[limit] > most", "false"),
    ),
    alone(
        "promoted-early",
        "settle",
        "promote",
        ("redis/store/test_swept.py",),
        ("elseif number(run_at) <= now then", "else"),
    ),
    Mutant(
        "redis-leaves-what-a-script-has-left-half-done",
        f"{STORES}/redis/upkeep.py",
        (("            if not agree:\n", "            if agree is None:\n"),),
        ("redis/test_rights.py",),
        keyword="half_done and (zadd or hset)",
    ),
    alone(
        "insert-keeps-what-it-has-written-when-it-fails",
        "insert",
        "plain_or_nothing",
        ("redis/test_rights.py",),
        ("redis.pcall('DEL', prefix .. changed[i])", ""),
    ),
    lua("leaders-are-put-aside", "upkeep", "lead", "leadership", ("number(til) >= now", "number(til) < 0")),
    alone(
        "offered-to-nobody",
        "insert",
        "insert_offered",
        ("redis/store/test_offered.py",),
        ("redis.pcall('ZADD', KEYS[8], unpack(ready))\n", ""),
    ),
    alone(
        "offered-into-closed-queues",
        "insert",
        "plain",
        ("redis/store/test_offered.py",),
        ("  for place = closed, known < jobs and before or 0 do", "  for place = closed, 0 do"),
    ),
    alone(
        "known-jobs-of-a-list-are-written-again",
        "insert",
        "plain",
        ("redis/store/test_offered.py",),
        ("if written[id] or known > 0 and redis.call('EXISTS', key) == 1 then", "if written[id] then"),
    ),
    alone(
        "jobs-of-a-list-are-written-twice",
        "insert",
        "plain",
        ("redis/store/test_offered.py",),
        ("if written[id] or known > 0", "if known > 0"),
    ),
    lua("ranks-without-priority", "insert", "rank", "insert order", ("(127 - priority) * 35184372088832 + seq", "seq")),
    lua(
        "closed-queues-take",
        "insert",
        "refusal",
        "closed",
        ("    if redis.call('EXISTS', KEYS[place]) == 1 then", "    if false then"),
    ),
    lua(
        "renewed-leases-stay-in-the-way-of-lost-ones",
        "claim",
        "extend",
        "reclaim",
        ("    redis.call('ZADD', KEYS[1], expiry, ARGV[a + 1])\n", ""),
    ),
    lua(
        "more-than-run-are-let-through",
        "capacity",
        "ordering",
        "ordering",
        (" or free_slots(prefix) <= 0 then", " then"),
    ),
    lua(
        "room-in-the-last-queue-is-room-in-all",
        "capacity",
        "check_capacity",
        "limits",
        ("(full > 0 or answer == 'full') and", "full > 0 and"),
    ),
    lua(
        "times-of-earlier-holders-of-unique-keys",
        "capacity",
        "unique",
        "unique",
        ("    redis.call('ZREM', ends, key)\n", "    local _ = ends\n"),
    ),
    alone(
        "tokens-of-other-jobs",
        "claim",
        "claim",
        ("redis/store/test_traps.py",),
        ("  redis.call('SET', KEYS[6], digits(last))\n", ""),
    ),
    alone(
        "clocks-that-are-set-back-take-tokens",
        "capacity",
        "allowance",
        ("redis/store/test_rules.py",),
        ("math.max(0, now - number(at)) / 1000000", "(now - number(at)) / 1000000"),
    ),
    alone(
        "what-is-claimed-stays-on-offer",
        "claim",
        "claim",
        ("redis/store/test_offered.py",),
        ("  redis.call('ZREM', KEYS[3], unpack(ids))\n", ""),
    ),
    lua("promoted-jobs-wait-twice", "settle", "promote", "limits", ("    add_depth('d', number(priority), -1)\n", "")),
    lua(
        "what-had-not-begun-never-begins",
        "settle",
        "reclaim",
        "begin",
        ("'claim', 'ahead', 'cancel_requested')", "'claim', 'cancel_requested')"),
    ),
    lua(
        "lost-jobs-that-are-cancelled-keep-their-keys",
        "settle",
        "reclaim",
        "ordering",
        ("with_unblocked('c', order and release_key(order, id))", "'c'"),
    ),
    lua(
        "rescheduled-jobs-forget-their-place",
        "settle",
        "requeue",
        "ordering",
        ("        arrived_at(seq, order, key)\n", ""),
    ),
    delivered("renewed-waits-end-when-they-would-have", "expect", "test_traps_results", ("'GT', ", "'LT', ")),
    delivered(
        "waits-end-with-the-shortest",
        "expect",
        "test_traps_results",
        ("math.max(redis.call('PTTL', KEYS[1]), ARGV[2])", "ARGV[2]"),
    ),
    delivered(
        "answered-waits-stay",
        "publish",
        "test_traps_results",
        ("if redis.call('ZREM', KEYS[3], ARGV[i]) == 1 then", "if redis.call('ZSCORE', KEYS[3], ARGV[i]) then"),
    ),
    delivered(
        "announced-to-none-that-sleeps",
        "announce",
        "test_announcing",
        ("  redis.call('PUBLISH', ARGV[5], ARGV[6])\n", "  local _ = ARGV\n"),
    ),
    Mutant(
        "redis-hints-of-cancelled-looks-are-lost",
        f"{STORES}/redis/hints.py",
        (
            (
                "        except BaseException:\n            self.doubtful = True\n            raise\n        if queues",
                "        except Exception:\n            self.doubtful = True\n            raise\n        if queues",
            ),
        ),
        ("redis/store/test_hints.py",),
        keyword="failed_in_the_middle",
    ),
    Mutant(
        "redis-hints-that-were-not-put-back-are-lost",
        f"{STORES}/redis/hints.py",
        (("            self.doubtful = self.doubtful or not done\n", "            pass\n"),),
        ("redis/store/test_hints.py",),
        keyword="put_hints_back",
    ),
    Mutant(
        "redis-deaths-in-the-trash-are-of-its-deletion",
        f"{STORES}/redis/search.py",
        (("_BY_ENTRY if where.trash or where.statuses()", "_BY_ENTRY if where.statuses()"),),
        ("conformance/test_list_filters.py",),
        on("redis"),
    ),
    lua("cancelled-jobs-stay-on-offer", "change", "cancel", "cancel", ("for set = 1, 5 do", "for set = 3, 5 do")),
    lua(
        "cancelled-jobs-that-were-put-off-take-room",
        "change",
        "cancel",
        "limits",
        (
            "add_waiting(status == 'queued' and 'q' or 'd', type, number(priority), -1)",
            "add_waiting('q', type, number(priority), -1)",
        ),
    ),
    lua(
        "jobs-that-are-cancelled-with-their-loss-are-unfinished",
        "settle",
        "reclaim",
        "cancel",
        (
            "      redis.call('ZREM', KEYS[2], id)\n      redis.call('ZADD', KEYS[5], stamp, id)",
            "      redis.call('ZADD', KEYS[5], stamp, id)",
        ),
    ),
    lua(
        "moves-take-the-key-of-another",
        "change",
        "transfer",
        "unique",
        ("holds_unique and redis.call('HGET', KEYS[15], unique) == id and", "holds_unique and"),
    ),
    alone(
        "entries-without-jobs-are-due-for-ever",
        "settle",
        "promote",
        ("redis/store/test_swept.py",),
        ("    redis.call('ZREM', KEYS[1], id)\n    redis.call('ZREM', KEYS[2], id)\n  elseif", "  elseif"),
    ),
    alone(
        "offered-to-none-that-sleeps",
        "insert",
        "insert_offered",
        ("redis/store/test_offered.py",),
        ("  redis.pcall('PUBLISH', ARGV[5], ARGV[6])\n", "  local _ = ARGV\n"),
    ),
    lua(
        "retried-jobs-keep-their-results",
        "change",
        "retry",
        "retry",
        ("'trashed_at', 'result', 'started_at'", "'trashed_at', 'started_at'"),
    ),
    lua(
        "jobs-that-are-put-off-age-the-next",
        "insert",
        "rank",
        "aging",
        ("  if run_at <= now then\n", "  if true then\n"),
    ),
    alone(
        "retried-jobs-keep-the-cause-of-their-death",
        "change",
        "retry",
        ("redis/store/test_operators_scripts.py",),
        ("    redis.call('HDEL', KEYS[7], id)\n", ""),
    ),
    lua(
        "cancelled-jobs-keep-their-progress",
        "settle",
        "finish",
        "extend",
        (
            "'cancel_requested', 'progress', 'progress_message')\n    redis.call('HSET', key, unpack(fields))",
            "'cancel_requested')\n    redis.call('HSET', key, unpack(fields))",
        ),
    ),
    lua(
        "lost-jobs-died-on-no-release",
        "settle",
        "reclaim",
        "signature_states",
        ("      ran(type, job[15], 0, 1)\n", ""),
    ),
    lua(
        "what-was-due-before-it-came-has-waited-since",
        "insert",
        "job",
        "aging",
        ("math.max(now, tonumber(ARGV[a + 8]) or now + ARGV[a + 7])", "tonumber(ARGV[a + 8]) or now + ARGV[a + 7]"),
    ),
    alone(
        "times-of-unique-keys-stay",
        "upkeep",
        "forget",
        ("redis/store/test_leaks.py",),
        ("  redis.call('ZREM', KEYS[2], unpack(over))\n", ""),
    ),
    lua(
        "what-is-cancelled-as-it-fails-has-not-waited",
        "settle",
        "requeue",
        "tallies",
        ("      count_wait('cancelled', type, started_at, run_at)\n", ""),
    ),
    lua(
        "moved-jobs-leave-the-depth-of-their-new-priority",
        "change",
        "transfer",
        "operations_moving",
        ("add_waiting(place, type, number(priority), -1)", "add_waiting(place, type, number(wanted), -1)"),
    ),
    lua(
        "moved-jobs-with-unique-keys-were-changed-now",
        "change",
        "transfer_parts",
        "operations_moving",
        ("    redis.call('ZADD', KEYS[23], changed_at, id)\n", ""),
    ),
    lua(
        "attempts-from-before-bring-errors-back-on-unknown-releases",
        "totals",
        "by_release",
        "signature_states",
        ("by_begin == '0' and release ~= '0'", "by_begin == '0'"),
    ),
    Mutant(
        "redis-ticks-of-other-processes-are-not-read",
        f"{STORES}/redis/upkeep.py",
        (("self._signals.hears() and not self._signals.ticks_changed and", "self._signals.hears() and"),),
        ("redis/store/test_hints.py",),
        keyword="another_process_announces",
    ),
    Mutant(
        "redis-ready-sets-that-were-overwritten-are-whole",
        "queue_core/delivery/redis_dispatcher.py",
        ((" and self._ready not in strangers)", ")"),),
        ("redis/test_traps_audit.py",),
        keyword="overwritten",
    ),
    lua(
        "retries-that-are-put-off-are-ready-by-their-depth",
        "change",
        "retry",
        "operations",
        ("add_waiting(delay > 0 and 'd' or 'q', type", "add_waiting('q', type"),
    ),
    lua(
        "losses-have-numbers-without-deaths",
        "settle",
        "reclaim",
        "reclaim",
        ("number(job[7]) + number(job[14]) + losses, token", "number(job[7]) + losses, token"),
    ),
    lua(
        "dead-jobs-have-not-waited",
        "settle",
        "bury",
        "tallies",
        ("    count_wait(kind, type, started_at, job[8])\n", ""),
    ),
    lua(
        "members-fail-behind-barriers",
        "steps",
        "operation_fail_member",
        "operations_ramp",
        ("number(done) < number(barrier)", "number(done) <= number(barrier)"),
    ),
    lua(
        "ramps-forget-members-that-failed",
        "steps",
        "barriers",
        "operations_ramp",
        ("number(skipped) + number(errored)", "number(skipped)"),
    ),
)
