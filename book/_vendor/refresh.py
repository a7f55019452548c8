"""Refresh and check the JavaScript that the book carries with it.

The built book asks no other machine for anything, so require.js, the Jupyter widget manager and MathJax
are committed under ``files/`` together with their licences. ``make book`` only copies them.

    python book/_vendor/refresh.py            compare every file with manifest.json
    python book/_vendor/refresh.py --fetch    download the packages again (needs npm), then write manifest.json
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = HERE / "files"
MANIFEST = HERE / "manifest.json"

# folder under files/ -> npm package and the members to keep: {path in the package: path in the folder}.
# A path that ends in "/" stands for every file below it.
PACKAGES = {
    "requirejs": ("requirejs@2.3.8", {"require.js": "require.js"}),
    "html-manager": (
        "@jupyter-widgets/html-manager@1.0.15",
        {
            "dist/embed-amd.js": "embed-amd.js",
            "dist/embed.js.LICENSE.txt": "embed-amd.js.LICENSE.txt",
            "dist/1551f4f60c37af51121f.woff2": "1551f4f60c37af51121f.woff2",
            "dist/7a3337626410ca2f4071.woff2": "7a3337626410ca2f4071.woff2",
            "dist/d878b0a6a1144760244f.woff2": "d878b0a6a1144760244f.woff2",
        },
    ),
    "mathjax": (
        "mathjax@3.2.2",
        {
            "LICENSE": "LICENSE.txt",
            "es5/tex-chtml.js": "tex-chtml.js",
            "es5/input/tex/extensions/": "input/tex/extensions/",
            "es5/output/chtml/fonts/woff-v2/": "output/chtml/fonts/woff-v2/",
        },
    ),
}

# file -> (pattern, replacement) pairs; the comments say what is wrong without them
PATCHES = {
    "html-manager/embed-amd.js": [
        # its fonts are looked for beside the page, which is a 404 on every page with a widget
        (
            r"\A",
            'window.__jupyter_widgets_assets_path__=document.currentScript.src.replace(/[^/]*$/,"");\n',
        ),
        (
            r"\.p=`\$\{\w+\.origin\}\$\{\w+\.pathname\}`",
            ".p=window.__jupyter_widgets_assets_path__",
        ),
        # formulas in labels are asked for in the way of MathJax 2, which is an error with MathJax 3
        (
            r'void 0!==window\.MathJax&&MathJax\.Hub\.Queue\(\["Typeset",MathJax\.Hub,(\w+)\]\)',
            r"window.MathJax?.startup?.promise?.then(()=>MathJax.typesetPromise([\1]))",
        ),
        # maps for debuggers, which are not shipped
        (r"//# sourceMappingURL=\S+\.js\.map", ""),
    ],
}


def sha256(path):
    """Hexadecimal SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hashes():
    """Path under ``files/`` -> SHA-256, for every file there."""
    paths = sorted(p for p in FILES.rglob("*") if p.is_file())
    return {p.relative_to(FILES).as_posix(): sha256(p) for p in paths}


def differences(expected, found):
    """One line for each file that is missing, changed or unknown."""
    lines = []
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            lines.append(f"missing: {name}")
        elif name not in expected:
            lines.append(f"not in the manifest: {name}")
        elif expected[name] != found[name]:
            lines.append(f"changed: {name}")
    return lines


def fetch_package(folder, spec, members):
    """Download one npm package and copy its wanted members into ``files/<folder>``."""
    with tempfile.TemporaryDirectory() as scratch:
        packed = subprocess.run(
            ["npm", "pack", "--silent", spec],
            cwd=scratch,
            check=True,
            capture_output=True,
            text=True,
        )
        with tarfile.open(Path(scratch, packed.stdout.split()[-1])) as archive:
            for member in archive.getmembers():
                name = member.name.split("/", 1)[-1]  # all members lie below "package/"
                for source, target in members.items():
                    if member.isfile() and (
                        name == source
                        or (source.endswith("/") and name.startswith(source))
                    ):
                        path = FILES / folder / (target + name[len(source) :])
                        path.parent.mkdir(parents=True, exist_ok=True)
                        with path.open("wb") as out:
                            shutil.copyfileobj(archive.extractfile(member), out)


def patch(name, replacements):
    """Apply the replacements to one file; each must occur."""
    path = FILES / name
    text = path.read_text(encoding="utf-8")
    for pattern, new in replacements:
        text, count = re.subn(pattern, new, text)
        if not count:
            raise ValueError(f"{name}: {pattern!r} not found; has the package changed?")
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="download again with npm and write the manifest",
    )
    if parser.parse_args().fetch:
        for folder, (spec, members) in PACKAGES.items():
            fetch_package(folder, spec, members)
        for name, replacements in PATCHES.items():
            patch(name, replacements)
        manifest = {
            "packages": {k: spec for k, (spec, _) in PACKAGES.items()},
            "sha256": hashes(),
        }
        MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    faults = differences(
        json.loads(MANIFEST.read_text(encoding="utf-8"))["sha256"], hashes()
    )
    print("\n".join(faults) or f"all {len(hashes())} files match the manifest")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
