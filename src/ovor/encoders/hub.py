"""Files of the Hugging Face hub: from its cache if they are there, else fetched."""

from contextlib import suppress
from pathlib import Path

from ovor.encoders.preprocessing import CONFIG
from ovor.errors import OvorError


def download(repo: str, file: str, cache_dir: str | Path | None, otherwise: str) -> Path:
    """Return a file in the hub's cache, downloaded with its config if it is not there yet.

    `otherwise` says what else to do with the file where there is no network.
    """
    # Slow to import, and most runs do not need it.
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        # The cache first: no network, and the weights stay the same from run to run.
        return Path(hf_hub_download(repo, file, cache_dir=cache_dir, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise OvorError(f"{repo} cannot be a name on the hub: check it, or {otherwise}.") from error
    try:
        found = Path(hf_hub_download(repo, file, cache_dir=cache_dir))
    except RepositoryNotFoundError as error:
        raise OvorError(f"the Hugging Face hub has no {repo}; check the name and tag.") from error
    except Exception as error:  # every layer of the network has errors of its own
        raise OvorError(
            f"{repo} is not cached and cannot be fetched ({type(error).__name__}); download its "
            f"file {file} where there is a network and {otherwise}, or copy a Hugging Face cache "
            "that holds it and set HF_HUB_CACHE to that folder."
        ) from error
    with suppress(Exception):  # then its preprocessing is told by its name
        hf_hub_download(repo, CONFIG, cache_dir=cache_dir)  # comes to lie beside the weights
    return found
