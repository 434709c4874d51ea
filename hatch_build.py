"""The long description of the packages: README without links that lead nowhere on an index.

Hatchling runs this when it writes metadata. README links to files beside it; a package index has
none of them. Where ``project.urls.Repository`` names a public repository, links and pictures lead
there. Where it does not, a link becomes its words with the file's name, and pictures are left out
with the caption below them; both are in the source archive.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[[^]]*\]\((?![a-z]+:)[^)]+\)\n\n(?:\*[^*]+\*\n\n)?", flags=re.MULTILINE)
COMMENT = re.compile(r"^<!--.*?-->\n", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:)([^)#]+)(#[^)]*)?\)")


def long_description(readme: str, *, repository: str | None) -> str:
    """Return README as an index can show it; ``repository`` is a GitHub-like address."""
    readme = COMMENT.sub("", readme)
    if repository is None:
        return LINK.sub(r"\2 (\3)", PICTURE.sub("", readme))

    def elsewhere(link: re.Match[str]) -> str:
        mark, words, path, anchor = link.groups(default="")
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/main/{path}{anchor})"

    return LINK.sub(elsewhere, readme)


class CustomMetadataHook(MetadataHookInterface):
    """What hatchling asks."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the long description to the metadata."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        text = long_description(readme, repository=repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
