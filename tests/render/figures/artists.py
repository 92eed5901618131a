"""Finding what was drawn by its gid."""

from slalom.render.figures.canvas import Key


def artist(axes, gid):
    """The only artist with this gid."""
    (match,) = axes.findobj(lambda artist: artist.get_gid() == gid)
    return match


def artists(axes, start):
    """All artists whose gid starts so."""
    return axes.findobj(lambda artist: (artist.get_gid() or "").startswith(start))


def legend(axes):
    """The labels of the legend."""
    return [text.get_text() for key in axes.findobj(Key) for text in key.get_texts()]
