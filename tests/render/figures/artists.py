"""Finding what was drawn by its gid."""


def artist(axes, gid):
    """The only artist with this gid."""
    (match,) = axes.findobj(lambda artist: artist.get_gid() == gid)
    return match


def artists(axes, start):
    """All artists whose gid starts so."""
    return axes.findobj(lambda artist: (artist.get_gid() or "").startswith(start))
