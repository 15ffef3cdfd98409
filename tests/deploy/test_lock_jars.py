from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from group_coordinator.deploy.jars import JarError, read_lock
from group_coordinator.deploy.lock_jars import ROOTS, closure


@pytest.mark.parametrize("section", ROOTS)
def test_the_lock_is_in_step_with_its_roots(section: str) -> None:
    locked = read_lock(section)

    assert set(ROOTS[section]) <= {jar.coordinate for jar in locked}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in locked)
    assert len({jar.filename for jar in locked}) == len(locked)


@pytest.mark.parametrize("section", ["spark", "local", "s3a", "hdfs"])
def test_spark_gets_exactly_the_roots(section: str) -> None:
    assert {jar.coordinate for jar in read_lock(section)} == set(ROOTS[section])


def test_locking_resolves_roots_apart_and_refuses_versions_that_disagree() -> None:
    def dependency(coordinate: str) -> SimpleNamespace:
        group, artifact, version, *classifier = coordinate.split(":")
        return SimpleNamespace(
            groupId=group,
            artifactId=artifact,
            version=version,
            classifier="".join(classifier) or None,
            artifact=SimpleNamespace(component=coordinate),
        )

    needs = {
        "a:root:1": ["x:shared:1", "x:own:3:linux"],
        "b:root:1": ["x:shared:1"],
        "c:root:1": ["x:shared:2"],
    }

    def resolve(roots: list[SimpleNamespace]) -> tuple[list[SimpleNamespace], list[SimpleNamespace]]:
        (root,) = roots
        return roots, [dependency(name) for name in needs[root.artifact.component]]

    context = SimpleNamespace(create_dependency=dependency, resolver=SimpleNamespace(resolve=resolve))
    assert closure(["a:root:1", "b:root:1"], context) == {
        "a:root:1",
        "b:root:1",
        "x:shared:1",
        "x:own:3:linux",
    }

    with pytest.raises(JarError, match="c:root:1 needs x:shared:2, another root 1"):
        closure(["a:root:1", "c:root:1"], context)
