from detectors import receivers
from detectors.receivers import Delivered
from detectors.sample import sample, trial
from tests import fakes
from tests.kit_receivers import NOW

URL = "https://gatewatch.example"


def test_the_sample_says_all_that_a_person_needs_to_judge() -> None:
    told = sample("en", URL, NOW, "Asia/Shanghai")

    assert dict(told.facts).keys() >= {
        "denials", "baseline", "threshold", "agent", "account", "operation", "chain id", "since"
    }  # fmt: skip
    assert (told.at_local, len(told.evidence)) == ("2026-03-10 17:30:00 +0800", 3)
    assert dict(told.params)["filter.region"] == "EU"
    assert told.respond
    assert told.buttons == (("trace", f"{URL}/trace?trace=t-1"),)


def test_the_same_words_stand_in_the_sample_in_every_language() -> None:
    english, chinese = sample("en", URL, NOW), sample("zh", URL, NOW)

    assert "连续被拒 3 次" in chinese.title
    assert chinese.evidence == english.evidence
    assert english.respond != chinese.respond != ""


def test_a_trial_says_that_it_is_one_and_every_receiver_takes_it() -> None:
    told = trial("en", "ops", "dl_1", URL, NOW)

    assert told.title.startswith("This is a test message")
    assert (told.severity, told.subject, told.buttons) == ("low", "ops", ())
    for name in receivers.names():
        fake = fakes.load(name)
        assert isinstance(fakes.tell(fake, name, told), Delivered), fake.refused
