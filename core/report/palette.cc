#include "core/report/palette.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe::report {
namespace {

// Ordered so that neighbouring stages have distant hues.
constexpr double kStageHues[kNumStageHues] = {255, 180, 310, 145, 280, 215, 340, 165};
constexpr double kFrozenHues[kNumFrozenHues] = {75, 45, 100, 25};

struct Tone {
  double lightness;
  double chroma;
};

// Blue, orange, green, pink, violet, cyan, ochre, red: at least 0.13 apart in OKLab in both themes,
// with a contrast of at least 3 to 1 to the background.
struct SeriesTone {
  double hue;
  Tone light, dark;
};
constexpr SeriesTone kSeriesTones[kNumSeriesColors] = {
    {255, {0.50, 0.16}, {0.70, 0.13}}, {50, {0.66, 0.17}, {0.78, 0.15}},
    {150, {0.50, 0.13}, {0.68, 0.15}}, {345, {0.58, 0.20}, {0.76, 0.14}},
    {300, {0.40, 0.16}, {0.60, 0.18}}, {205, {0.65, 0.11}, {0.86, 0.10}},
    {90, {0.43, 0.10}, {0.88, 0.13}},  {27, {0.52, 0.21}, {0.64, 0.19}},
};

Tone PassTone(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return {0.85, 0.075};
    case Pass::kBackward:
      return {0.54, 0.14};
    case Pass::kInputGrad:
      return {0.47, 0.12};
    case Pass::kRecompute:
      return {0.80, 0.035};
    case Pass::kFirstLap:
      return {0.93, 0.035};
    default:
      return {0.40, 0.11};
  }
}

// Converts OKLab to linear sRGB; components may be outside [0, 1].
Rgb OklabToLinear(double lightness, double a, double b) {
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool InGamut(const Rgb& color) {
  constexpr double kSlack = 1e-4;
  for (const double c : {color.red, color.green, color.blue}) {
    if (c < -kSlack || c > 1 + kSlack) return false;
  }
  return true;
}

double Encode(double linear) {
  linear = std::clamp(linear, 0.0, 1.0);
  return linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
}

double Decode(double encoded) {
  return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
}

double Luminance(const Rgb& color) {
  return 0.2126 * Decode(color.red) + 0.7152 * Decode(color.green) + 0.0722 * Decode(color.blue);
}

Rgb Grey(double lightness) { return OklchToRgb(lightness, 0.012, 260); }

constexpr Rgb kNearBlack = {0.07, 0.08, 0.10};
constexpr Rgb kNearWhite = {0.98, 0.98, 1.0};

// Returns rules for the fill of a box and of its text.
std::string BoxRule(const std::string& name, Rgb color) {
  return absl::StrCat(".", name, "{fill:", HexText(color), "}.t", name,
                      "{fill:", HexText(TextColorOn(color)), "}\n");
}

// Returns the rules of boxes, which are the same in both themes.
std::string BoxRules() {
  std::string css;
  for (int hue = 0; hue < kNumStageHues; ++hue) {
    for (const Pass pass : kAllPasses) {
      css += BoxRule(PassClass(hue, pass), PassColor(hue, pass));
    }
  }
  for (int component = 0; component < kNumFrozenHues; ++component) {
    for (const bool next_step : {false, true}) {
      const std::string name = FrozenClass(component, next_step);
      const Rgb color = FrozenColor(component, next_step);
      css += BoxRule(name, color);
      // A halo in the boxes' colour, because a run's name is written across their borders.
      absl::StrAppend(&css, ".run.t", name, "{stroke:", HexText(color), "}\n");
    }
  }
  css += BoxRule("opt", Grey(0.38));
  css += BoxRule("load", OklchToRgb(0.72, 0.06, 60));
  css += BoxRule("prm", OklchToRgb(0.70, 0.10, 350));
  css += BoxRule("wait", Grey(0.85));
  css += BoxRule("sync", OklchToRgb(0.62, 0.17, 5));
  return css;
}

std::string ThemeRules(Theme theme) {
  const bool light = theme == Theme::kLight;
  std::string css;
  const std::string surface = HexText(SurfaceColor(theme)), text = HexText(TextColor(theme));
  const std::string muted = HexText(Grey(light ? 0.50 : 0.70)),
                    line = HexText(Grey(light ? 0.82 : 0.36));
  const std::string activation = HexText(OklchToRgb(light ? 0.45 : 0.80, 0.10, 255));
  const std::string gradient = HexText(OklchToRgb(light ? 0.48 : 0.78, 0.14, 320));
  const std::string frozen = HexText(OklchToRgb(light ? 0.62 : 0.80, 0.14, 65));
  absl::StrAppend(&css, ".bg{fill:", surface, "}.e rect{stroke:", surface, "}\n");
  absl::StrAppend(&css, ".lab{fill:", text, "}.mut,.tbub{fill:", muted,
                  "}.lane{fill:", HexText(Grey(light ? 0.97 : 0.235)), "}\n");
  absl::StrAppend(&css, ".hb{fill:", HexText(Grey(light ? 0.965 : 0.25)),
                  "}.hl{stroke:", HexText(Grey(light ? 0.80 : 0.42)), "}.bub{stroke:", line, "}\n");
  absl::StrAppend(&css, ".grid{stroke:", line, "}.edge{stroke:", text, "}\n");
  absl::StrAppend(&css, ".band{fill:", text, "}.crit rect,.crit line{stroke:",
                  HexText(OklchToRgb(light ? 0.58 : 0.72, 0.22, 27)), "}\n");
  const std::string memory = HexText(OklchToRgb(light ? 0.86 : 0.40, 0.06, 200));
  absl::StrAppend(&css, ".mem{fill:", memory, ";stroke:", muted,
                  "}.cap{stroke:", HexText(OklchToRgb(light ? 0.58 : 0.72, 0.22, 27)), "}\n");
  for (const auto& [name, color] :
       {std::pair("act", activation), std::pair("grad", gradient), std::pair("frz", frozen)}) {
    absl::StrAppend(&css, ".", name, "{fill:", color, ";stroke:", color, "}\n");
  }
  return css;
}

}  // namespace

Rgb OklchToRgb(double lightness, double chroma, double hue_degrees) {
  constexpr double kPi = 3.14159265358979323846;
  const double hue = hue_degrees * kPi / 180;
  Rgb linear = OklabToLinear(lightness, chroma * std::cos(hue), chroma * std::sin(hue));
  while (!InGamut(linear) && chroma > 0.001) {
    chroma *= 0.97;
    linear = OklabToLinear(lightness, chroma * std::cos(hue), chroma * std::sin(hue));
  }
  return {Encode(linear.red), Encode(linear.green), Encode(linear.blue)};
}

std::string HexText(Rgb color) {
  const auto byte = [](double value) { return static_cast<int>(std::lround(255 * value)); };
  return absl::StrFormat("#%02x%02x%02x", byte(color.red), byte(color.green), byte(color.blue));
}

double ContrastRatio(Rgb a, Rgb b) {
  const double brighter = std::max(Luminance(a), Luminance(b));
  const double darker = std::min(Luminance(a), Luminance(b));
  return (brighter + 0.05) / (darker + 0.05);
}

Rgb PassColor(int hue, Pass pass) {
  const Tone tone = PassTone(pass);
  return OklchToRgb(tone.lightness, tone.chroma, kStageHues[hue % kNumStageHues]);
}

Rgb FrozenColor(int component, bool next_step) {
  return OklchToRgb(next_step ? 0.90 : 0.72, next_step ? 0.09 : 0.15,
                    kFrozenHues[component % kNumFrozenHues]);
}

Rgb SeriesColor(Theme theme, int series) {
  const SeriesTone& series_tone = kSeriesTones[series % kNumSeriesColors];
  const Tone& tone = theme == Theme::kLight ? series_tone.light : series_tone.dark;
  return OklchToRgb(tone.lightness, tone.chroma, series_tone.hue);
}

Rgb SurfaceColor(Theme theme) {
  return theme == Theme::kLight ? Rgb{1, 1, 1} : OklchToRgb(0.19, 0.012, 260);
}

Rgb TextColor(Theme theme) {
  return theme == Theme::kLight ? kNearBlack : OklchToRgb(0.92, 0.008, 260);
}

Rgb TextColorOn(Rgb background) {
  return ContrastRatio(kNearBlack, background) >= ContrastRatio(kNearWhite, background)
             ? kNearBlack
             : kNearWhite;
}

std::string PassClass(int hue, Pass pass) {
  constexpr char kLetters[] = {'f', 'b', 'i', 'w', 'r', 'l'};
  return absl::StrCat("s", std::max(0, hue) % kNumStageHues,
                      std::string(1, kLetters[static_cast<int>(pass)]));
}

std::string FrozenClass(int component, bool next_step) {
  return absl::StrCat("z", std::max(0, component) % kNumFrozenHues, next_step ? "n" : "");
}

const char* SeriesDash(int series) {
  constexpr const char* kDashes[] = {"", "8 4", "2 3", "8 3 2 3"};
  return kDashes[series / kNumSeriesColors % static_cast<int>(std::size(kDashes))];
}

std::string SeriesAttributes(int series) {
  const std::string css_class = absl::StrCat("class=\"curve q", series % kNumSeriesColors, "\"");
  const std::string dash = SeriesDash(series);
  return dash.empty() ? css_class : absl::StrCat(css_class, " stroke-dasharray=\"", dash, "\"");
}

std::string TimelineCss() {
  return absl::StrCat(
      ".e rect{stroke-width:.8}.e:hover rect,.e:focus rect{stroke-width:0;opacity:.78}\n"
      ".e text,.run,.lab,.mut{font:600 11px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu "
      "Sans',sans-serif}"
      ".e "
      "text,.run{pointer-events:none;text-anchor:middle}.run{paint-order:stroke;stroke-width:4}."
      "mut{font-weight:400}.e "
      ".tbub{font-weight:400}\n"
      ".bub{stroke-width:.6}.hl{stroke-width:2.2}.grid{stroke-width:.7}.edge{stroke-width:1.2;"
      "stroke-dasharray:4 3}.msg{stroke-width:1.3;stroke-opacity:.8}.msg.frz{stroke-opacity:.55}"
      ".head{stroke:none}.e.thin rect{stroke:none}.e "
      "rect.band{stroke:none;opacity:.55}.crit{pointer-events:none}"
      ".crit rect{fill:none;stroke-width:2.2}.crit line{stroke-width:1.6;stroke-dasharray:3 2}"
      ".mem{stroke-width:.8;vector-effect:non-scaling-stroke}.cap{stroke-width:1.2;"
      "stroke-dasharray:5 3}\n",
      BoxRules(), ThemeRules(Theme::kLight), "@media (prefers-color-scheme:dark){\n",
      ThemeRules(Theme::kDark), "}\n");
}

}  // namespace dpipe::report
