"""Links say where somebody was, survive a shell, and lead nowhere else."""

from __future__ import annotations

import shlex

import pytest

from jobconsole.tui.base.links import Link, LinkError, parse_link

ID = "0197b3c2-5a1e-7c88-9b3e-56e26719422c"


@pytest.mark.parametrize(
    "link",
    [
        Link("job", ID, "prod"),
        Link("signature", "9f31c2aaaaaa"),
        Link("jobs", 'err:~"a b" $(rm -rf) age:<1h !tag:x?*', "my prod"),
        Link("triage", "type:x"),
        Link("live"),
        Link("events", "", "dev"),
        Link("operations", "ana sig:9f"),
        Link("operation", "81", "prod"),
        Link("schedules", "paused type:x"),
        Link("schedule", "nightly report/Zürich $x", "prod"),
    ],
    ids=lambda link: link.place,
)
def test_a_link_leads_back_and_is_one_word_of_a_shell(link: Link) -> None:
    assert parse_link(link.text) == link
    assert shlex.split(link.text) == [link.text]
    assert not set(link.text) & set(" \"'$&|;<>()*?[]{}`\\!#\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://example.org", "a link begins with jobconsole://"),
        ("jobconsole://prod", "leads nowhere"),
        ("jobconsole://prod/nosuch", "leads nowhere"),
        ("jobconsole:///live/x", "leads nowhere"),
        ("jobconsole:///job/x/y", "leads nowhere"),
        ("jobconsole:///job/12", "names no job"),
        ("jobconsole:///signature/XYZ", "names no signature"),
        ("jobconsole:///schedule/", "names no schedule"),
        ("jobconsole:///operation/", "names no operation"),
        ("jobconsole:///operation/08", "names no operation"),
        ("jobconsole:///operation/%E2%91%A1", "names no operation"),
        ("jobconsole:///schedules/colour%3Ared", "filter cannot be understood"),
        ("jobconsole:///jobs/colour%3Ared", "filter cannot be understood: no field 'colour'"),
        ("jobconsole:///jobs/" + "a" * 9000, "a link begins with"),
    ],
)
def test_what_is_no_link_is_said(text: str, why: str) -> None:
    with pytest.raises(LinkError, match=why.replace("(", r"\(")):
        parse_link(text)
