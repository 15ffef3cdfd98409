"""The look: colours for light and dark, and shapes. Nothing is told by colour alone."""

from __future__ import annotations

STYLE = """\
.gc-timeline{--bg:#fff;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--grid:#eaeef2;--bar:#f1f4f7;--cap:#818b98;\
--stable:#c4ebce;--stable-ink:#0f5323;--join:#ffe7a3;--join-ink:#7a4d00;--sync:#ffd1ac;--sync-ink:#8a3a00;\
--empty:#eef1f4;--several:#e6dbfb;--several-ink:#512a97;--own:#b9dcff;--own2:#8cc6ff;--own-ink:#0a3069;\
--lead:#0550ae;--bad:#c01823;--moment:#c2185b;--lag:#0b7285;color-scheme:light dark;\
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:11px}
@media (prefers-color-scheme:dark){.gc-timeline{--bg:#0d1117;--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;\
--grid:#20262e;--bar:#171d25;--cap:#656c76;--stable:#17452a;--stable-ink:#a5e8b8;--join:#564000;--join-ink:#ffdf8a;\
--sync:#61300b;--sync-ink:#ffc9a1;--empty:#1c222a;--several:#3b2766;--several-ink:#dccbff;--own:#123c70;--own2:#1c5396;\
--own-ink:#d6eaff;--lead:#79c0ff;--bad:#ff7b72;--moment:#ff79b0;--lag:#66d9e8}}
.gc-timeline .bg{fill:var(--bg)}
.gc-timeline text{fill:var(--ink)}
.gc-timeline .m{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.gc-timeline .h{font-size:15px;font-weight:600}
.gc-timeline .n{font-weight:600}
.gc-timeline .soft{fill:var(--soft)}
.gc-timeline .s{font-size:10px}
.gc-timeline .grid{stroke:var(--grid);fill:none}
.gc-timeline .line{stroke:var(--line);fill:none}
.gc-timeline .shade{fill:var(--join);opacity:.28}
.gc-timeline .stable{fill:var(--stable)}.gc-timeline text.stable{fill:var(--stable-ink)}
.gc-timeline .join{fill:var(--join)}.gc-timeline text.join{fill:var(--join-ink)}
.gc-timeline .sync{fill:var(--sync)}.gc-timeline text.sync{fill:var(--sync-ink)}
.gc-timeline .empty{fill:var(--empty)}.gc-timeline text.empty{fill:var(--soft)}
.gc-timeline .away{fill:none}
.gc-timeline .several{fill:var(--several)}.gc-timeline text.several{fill:var(--several-ink)}
.gc-timeline .p{fill:none;stroke-width:1}
.gc-timeline .pj{stroke:var(--join-ink);opacity:.45}
.gc-timeline .ps{fill:var(--sync-ink);stroke:none;opacity:.5}
.gc-timeline .pv{stroke:var(--several-ink);opacity:.35}.gc-timeline .po{stroke:var(--own-ink);opacity:.28}
.gc-timeline .pe{stroke:var(--soft);opacity:.35}
.gc-timeline .bar{fill:var(--bar)}.gc-timeline .cap{stroke:var(--cap);stroke-width:1.5}
.gc-timeline .o0{fill:var(--own)}.gc-timeline .o1{fill:var(--own2)}.gc-timeline text.o{fill:var(--own-ink)}
.gc-timeline .lead{fill:var(--lead)}
.gc-timeline .wait{fill:none;stroke:var(--bad);stroke-width:3;stroke-dasharray:5 3}
.gc-timeline .in{fill:var(--soft)}.gc-timeline .again{fill:var(--bg);stroke:var(--soft)}
.gc-timeline .end circle{fill:var(--bg);stroke:var(--soft)}
.gc-timeline .end path{stroke:var(--soft);fill:none;stroke-width:1.4}
.gc-timeline .end path{stroke-linecap:round;stroke-linejoin:round}
.gc-timeline .bad circle,.gc-timeline .bad path{stroke:var(--bad)}.gc-timeline .bad path.full{fill:var(--bad)}
.gc-timeline text.bad{fill:var(--bad)}
.gc-timeline .why{stroke:var(--soft);stroke-dasharray:2 2;fill:none}
.gc-timeline .halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.gc-timeline .moment{stroke:var(--moment);stroke-width:1.5}.gc-timeline .pill{fill:var(--moment)}
.gc-timeline .lag{stroke:var(--lag);stroke-width:1.5;fill:none;stroke-linejoin:round;stroke-linecap:round}
.gc-timeline .under{fill:var(--lag);opacity:.16}
.gc-timeline .hit{fill:transparent}
.gc-timeline text.pill{fill:var(--bg)}
"""

# State -> class and pattern.
STATES = {
    "Stable": ("stable", ""),
    "PreparingRebalance": ("join", "gc-join"),
    "CompletingRebalance": ("sync", "gc-sync"),
    "Assigning": ("join", "gc-join"),
    "Reconciling": ("sync", "gc-sync"),
    "Empty": ("empty", ""),
    "Dead": ("empty", "gc-none"),
    "several": ("several", "gc-several"),
    "no coordinator": ("away", "gc-none"),
    "": ("empty", "gc-none"),
}


def _pattern(name: str, size: int, shape: str) -> str:
    box = f'width="{size}" height="{size}" patternUnits="userSpaceOnUse"'
    return f'<pattern id="gc-{name}" {box}>{shape}</pattern>'


PATTERNS = f"""\
<defs>\
{_pattern("join", 6, '<path class="p pj" d="M-1 7L7-1M-1 1L1-1M5 7L7 5"/>')}\
{_pattern("sync", 6, '<circle class="p ps" cx="3" cy="3" r="1"/>')}\
{_pattern("several", 4, '<path class="p pv" d="M1 0V4"/>')}\
{_pattern("none", 8, '<path class="p pe" d="M-1-1L9 9M-1 7L1 9M7-1L9 1"/>')}\
{_pattern("own", 4, '<path class="p po" d="M1 0V4"/>')}\
</defs>
"""

# Why a member went -> whether that is bad news, and its shape in a circle around 0,0.
BADGES = {
    "left": (False, "M-3.5 0H3.2M.6-2.6L3.2 0L.6 2.6"),
    "session_expired": (True, "M-2.5-2.5L2.5 2.5M2.5-2.5L-2.5 2.5"),
    "not_rejoined": (True, "M-4.5 4.5L4.5-4.5"),
    "not_synced": (True, "M0-3.6V.8M0 3.4V3.5"),
    "not_revoked": (True, "M-3 3V-1.5L0-3.5L3-1.5V3"),
    "replaced": (False, "M2.6-1.4A3 3 0 1 0 2.9 1M2.9-3.6V-1.2H.5"),
    "group_full": (True, "M-2.2-2.2H2.2V2.2H-2.2Z"),
    "unknown": (False, "M-1.7-1.7A1.8 1.8 0 1 1 0 .6V1.3M0 3.5V3.6"),
    "several": (False, "M-3 0H3M0-3V3"),
}
