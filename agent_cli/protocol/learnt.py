"""What servers teach by refusing something: a value that the model room makes and the store keeps."""

import msgspec


class Learnt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server taught about one model by refusing something."""

    context_window: int | None = None
    """Tokens, as an overflow error named it."""
    refused: tuple[str, ...] = ()
    """Parts of a request it does not take, by the names of `dialect.Repair`."""
    efforts: tuple[str, ...] | None = None
    """The efforts it said it knows."""
    max_output_tokens: int | None = None
    """The longest answer, as a refused limit named it."""

    def merged(self, newer: "Learnt") -> "Learnt":
        """This and what was learnt since, perhaps by another program: refusals add up, figures are the
        newer ones."""
        return Learnt(
            newer.context_window or self.context_window,
            (*self.refused, *(name for name in newer.refused if name not in self.refused)),
            newer.efforts if newer.efforts is not None else self.efforts,
            newer.max_output_tokens or self.max_output_tokens,
        )
