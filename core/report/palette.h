// Colours of pictures, in light and dark.
//
// Chosen in OKLCH, in which equal lightness looks equal for every hue. Stages have cool hues, pale
// for forward and strong for backward passes; frozen components are warm, strong for this step's
// work and pale for the next step's. So training, filling and idling differ at a glance, by
// lightness as well as by hue. Boxes are pale and strong in the same order in light and dark.
#ifndef DPIPE_CORE_REPORT_PALETTE_H_
#define DPIPE_CORE_REPORT_PALETTE_H_

#include <string>

namespace dpipe::report {

struct Rgb {
  // In [0, 1], gamma-encoded sRGB.
  double red = 0;
  double green = 0;
  double blue = 0;
};

// Converts from Björn Ottosson's OKLab (2020) in polar form: lightness in [0, 1], chroma, hue in
// degrees. Colours outside sRGB are brought inside by reducing chroma.
Rgb OklchToRgb(double lightness, double chroma, double hue_degrees);

std::string HexText(Rgb color);  // "#1a2b3c"

// Returns the contrast ratio of WCAG 2, from 1 (none) to 21; text needs 4.5.
double ContrastRatio(Rgb a, Rgb b);

enum class Theme { kLight, kDark };
enum class Pass {
  kForward,
  kBackward,
  kInputGrad,
  kWeightGrad,
  kRecompute,  // a repeated forward pass
  kFirstLap,   // forward without gradients, for self-conditioning
};
inline constexpr Pass kAllPasses[] = {Pass::kForward,    Pass::kBackward,  Pass::kInputGrad,
                                      Pass::kWeightGrad, Pass::kRecompute, Pass::kFirstLap};

// Hues repeat after kNumStageHues stages and kNumFrozenHues components.
inline constexpr int kNumStageHues = 8;
inline constexpr int kNumFrozenHues = 4;
inline constexpr int kNumSeriesColors = 8;

Rgb PassColor(int hue, Pass pass);
Rgb FrozenColor(int component, bool next_step);
// Returns the colour of a curve when several things, such as strategies, are compared. Any two
// colours differ clearly in hue or lightness, the first ones most. They repeat after
// kNumSeriesColors.
Rgb SeriesColor(Theme theme, int series);
Rgb SurfaceColor(Theme theme);  // background
Rgb TextColor(Theme theme);     // on the surface
// Returns near-black or near-white, whichever is easier to read on `background`.
Rgb TextColorOn(Rgb background);

// Return the CSS class of a box: "s3f", "s3b", "s3i", "s3w", "s3r", "s3l", "z1", or "z1n" for work
// of the next step. The class of its text has the prefix "t".
std::string PassClass(int hue, Pass pass);
std::string FrozenClass(int component, bool next_step);
// Returns the dash pattern of a curve: "" until colours repeat.
const char* SeriesDash(int series);
// Returns the attributes of a curve or of its mark in a legend: class "curve q3", and a dash
// pattern once colours repeat, so that no two of 32 series look alike. ChartCss has the rules.
std::string SeriesAttributes(int series);

// Returns the rules of all classes that pictures use, with a prefers-color-scheme rule for dark.
std::string TimelineCss();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PALETTE_H_
