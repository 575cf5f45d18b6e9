"""Settings: what they are, where they come from, and how they are shown.

Only the composition root and what stands above it read them; all else is given plain values.
"""

from windsprite_server.settings.model import EffectiveSetting, Origin, Settings
from windsprite_server.settings.shown import render_json, render_toml
from windsprite_server.settings.sources import SettingsError, load_settings

__all__ = [
    "EffectiveSetting",
    "Origin",
    "Settings",
    "SettingsError",
    "load_settings",
    "render_json",
    "render_toml",
]
