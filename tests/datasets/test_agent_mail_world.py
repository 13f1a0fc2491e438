"""The world that messages are sent in, and which of them are asked about."""

from __future__ import annotations

from agent_mail.dice import Dice
from agent_mail.generate import KINDS, SPARE, choose, needs
from agent_mail.lexicon import lexicon
from agent_mail.threads import plan
from agent_mail.traffic import traffic
from agent_mail.world import FEWEST_MEMBERS, World

SEED = 11


def test_a_world_is_drawn_from_its_seed() -> None:
    assert World.of(SEED) == World.of(SEED)
    assert World.of(SEED) != World.of(SEED + 1)


def test_every_project_has_members_and_a_product() -> None:
    world = World.of(SEED)
    assert [p.project_id for p in world.projects] == list(range(1, len(world.projects) + 1))
    for project in world.projects:
        assert len(set(project.members)) == len(project.members) >= FEWEST_MEMBERS
        assert 1 <= project.product_id <= len(world.products)


def test_a_conversation_opens_with_its_fact_and_keeps_to_its_room() -> None:
    world, words = World.of(SEED), lexicon()
    for seed in range(50):
        dice = Dice(seed)
        thread = plan(world, words, dice, None, 3)
        written = list(thread.written(dice))
        assert 1 <= len(written) == thread.length <= 3
        assert thread.fact in written[0].states


def test_each_kind_has_messages_to_ask_of_and_not_more_than_spare() -> None:
    chosen = choose(traffic(SEED, 1_000), SEED, per_slice=3)
    assert set(chosen) == set(KINDS)
    for kind, messages in chosen.items():
        assert 0 < len(messages) <= 3 * SPARE, kind


def test_no_question_is_asked_twice() -> None:
    asked = list(needs(choose(traffic(SEED, 1_000), SEED, per_slice=3), SEED))
    keys = [(need.text, tuple(sorted(need.params.items()))) for need in asked]
    assert len(keys) == len(set(keys)) > 0
