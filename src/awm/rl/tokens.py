"""One trajectory as token ids: what the policy sampled, and what the world put between.

Training uses the ids that were sampled, never text that was tokenised again: two spellings of the
same text have different likelihoods. The policy's ids carry the mask 1, everything else (tool
results, page images, refusals, the end of a turn that the policy did not write) the mask 0.

>>> tokens = TokenTrajectory([1, 2])
>>> tokens.add_sampled([7, 8])
>>> tokens.add_observation([3, 9, 9, 4], n_images=1)
>>> tokens.add_sampled([5])
>>> tokens.completion_ids, tokens.completion_mask
([7, 8, 3, 9, 9, 4, 5], [1, 1, 0, 0, 0, 0, 1])
"""

from __future__ import annotations

from collections.abc import Sequence

from awm.errors import MissingImageError


class TokenTrajectory:
    """The token ids of one conversation; they only grow.

    Args:
        prompt_ids: the conversation up to the policy's first turn.
    """

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self.prompt_ids = list(prompt_ids)
        self.completion_ids: list[int] = []
        """Everything after the prompt."""
        self.completion_mask: list[int] = []
        """1 where the policy sampled the token."""
        self.sampled_logprobs: list[float] = []
        """Of each completion token, as the sampler gave it; 0 where it was not sampled. Shorter
        than the completion where the sampler gave none."""
        self.n_images = 0
        """Images among the observations."""

    @property
    def ids(self) -> list[int]:
        """Prompt and completion."""
        return self.prompt_ids + self.completion_ids

    @property
    def n_sampled(self) -> int:
        """Tokens that the policy sampled: those that training has a loss on."""
        return sum(self.completion_mask)

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """Append a turn as the policy sampled it."""
        if logprobs is not None:
            if len(logprobs) != len(ids):
                raise ValueError(f"{len(logprobs)} log-probabilities for {len(ids)} sampled tokens")
            self.sampled_logprobs += logprobs
        self.completion_ids += ids
        self.completion_mask += [1] * len(ids)

    def add_observation(self, ids: Sequence[int], n_images: int = 0) -> None:
        """Append what answers a turn, whole: an observation is never cut."""
        self.sampled_logprobs += [0.0] * len(ids)
        self.completion_ids += ids
        self.completion_mask += [0] * len(ids)
        self.n_images += n_images


def check_image_places(
    ids: Sequence[int], image_token_id: int, n_features: int, n_images: int, where: str
) -> None:
    """Compare the image places of a token sequence with the features that will fill them.

    Args:
        ids: the whole sequence.
        image_token_id: the id of an image place.
        n_features: features that the vision tower will give for the sequence's images.
        n_images: images of the sequence.
        where: names the hand-over in the error.

    Raises:
        MissingImageError: they differ: the model would see other images than it was shown, or
            none.
    """
    n_places = sum(token == image_token_id for token in ids)
    if n_places != n_features:
        raise MissingImageError(
            f"{where}: {n_images} images give {n_features} features and the tokens have {n_places} "
            "places for them. An image was dropped or cut on the way; nothing is trained on such a "
            "row. Check the processor and the token limits (awm train preflight)"
        )
