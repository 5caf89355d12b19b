// The colours of pictures, in light and dark.
//
// Chosen in OKLCH, where equal lightness looks equal for every hue: a stage is a cool hue, its
// forward pass pale and its backward pass strong; frozen components are warm; so that training,
// filling and idling are told apart at a glance, by lightness as well as by hue.
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

// Björn Ottosson's OKLab (2020) in polar form: lightness in [0, 1], chroma, hue in degrees. A
// colour outside sRGB is brought inside by lowering its chroma.
Rgb OklchToRgb(double lightness, double chroma, double hue_degrees);

std::string HexText(Rgb color);  // "#1a2b3c"

// Contrast of WCAG 2: 1 (none) to 21; text wants 4.5.
double ContrastRatio(Rgb a, Rgb b);

enum class Theme { kLight, kDark };
enum class Pass {
  kForward,
  kBackward,
  kInputGrad,
  kWeightGrad,
  kRecompute,  // forward again
  kFirstLap,   // forward without gradients: self-conditioning
};
inline constexpr Pass kAllPasses[] = {Pass::kForward,    Pass::kBackward,  Pass::kInputGrad,
                                      Pass::kWeightGrad, Pass::kRecompute, Pass::kFirstLap};

// Hues beyond kNumStageHues and components beyond kNumFrozenHues begin again with the first.
inline constexpr int kNumStageHues = 8;
inline constexpr int kNumFrozenHues = 4;
inline constexpr int kNumSeriesColors = 8;

Rgb PassColor(Theme theme, int hue, Pass pass);
Rgb FrozenColor(Theme theme, int component);
// Of the curve of one among several things that are compared, such as strategies: any two differ
// much in hue or lightness, the first ones most. Beyond kNumSeriesColors they begin again.
Rgb SeriesColor(Theme theme, int series);
Rgb SurfaceColor(Theme theme);  // behind everything
Rgb TextColor(Theme theme);     // on the surface
// Whichever of near-black and near-white is easier to read on `background`.
Rgb TextColorOn(Rgb background);

// CSS class of a box: "s3f", "s3b", "s3i", "s3w", "s3r", "s3l" and "z1". Class "t" + that is its
// text's.
std::string PassClass(int hue, Pass pass);
std::string FrozenClass(int component);
// The attributes of a curve or of its mark in a legend: class "curve q3", and a dash pattern where
// the colours have begun again, so that no two of 32 series look alike. ChartCss has the rules.
std::string SeriesAttributes(int series);

// The rules of all classes that pictures use, with a prefers-color-scheme rule for dark.
std::string TimelineCss();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PALETTE_H_
