#include "core/report/palette.h"

#include <array>
#include <cmath>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(OklchTest, KnownColors) {
  EXPECT_EQ(HexText(OklchToRgb(1, 0, 0)), "#ffffff");
  EXPECT_EQ(HexText(OklchToRgb(0, 0, 0)), "#000000");
  // Ottosson's red: L 0.628, C 0.258, h 29.23.
  EXPECT_EQ(HexText(OklchToRgb(0.62796, 0.25768, 29.234)), "#ff0000");
}

TEST(OklchTest, OutsideOfTheGamutKeepsItsHue) {
  const Rgb blue = OklchToRgb(0.5, 0.9, 264);
  EXPECT_GT(blue.blue, blue.red);
  EXPECT_GT(blue.blue, blue.green);
}

TEST(ContrastTest, BlackOnWhiteIs21) { EXPECT_NEAR(ContrastRatio({0, 0, 0}, {1, 1, 1}), 21, 1e-9); }

TEST(PaletteTest, TextIsReadableOnEveryBox) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    EXPECT_GT(ContrastRatio(TextColor(theme), SurfaceColor(theme)), 10);
  }
  for (int stage = 0; stage < kNumStageHues; ++stage) {
    for (const Pass pass : kAllPasses) {
      const Rgb color = PassColor(stage, pass);
      EXPECT_GT(ContrastRatio(TextColorOn(color), color), 4.5) << HexText(color);
    }
  }
  for (int component = 0; component < kNumFrozenHues; ++component) {
    for (const bool next_step : {false, true}) {
      const Rgb color = FrozenColor(component, next_step);
      EXPECT_GT(ContrastRatio(TextColorOn(color), color), 4.5) << HexText(color);
    }
  }
}

TEST(PaletteTest, ForwardAndBackwardDifferInLightness) {
  for (int stage = 0; stage < kNumStageHues; ++stage) {
    EXPECT_GT(ContrastRatio(PassColor(stage, Pass::kForward), PassColor(stage, Pass::kBackward)),
              2.5);
  }
}

TEST(PaletteTest, WorkOfTheNextStepIsPaler) {
  for (int component = 0; component < kNumFrozenHues; ++component) {
    const Rgb now = FrozenColor(component, false), next = FrozenColor(component, true);
    EXPECT_GT(ContrastRatio(next, now), 1.6) << HexText(now) << " " << HexText(next);
    EXPECT_GT(ContrastRatio(next, {0, 0, 0}), ContrastRatio(now, {0, 0, 0}));
  }
}

TEST(PaletteTest, DarkPagesDoNotChangeBoxes) {
  const std::string css = TimelineCss();
  const std::string dark = css.substr(css.find("prefers-color-scheme:dark"));
  for (const std::string& box :
       {PassClass(0, Pass::kForward), PassClass(1, Pass::kBackward), FrozenClass(0, false),
        FrozenClass(0, true), std::string("opt"), std::string("sync"), std::string("wait")}) {
    EXPECT_THAT(css, ::testing::HasSubstr("." + box + "{fill:"));
    EXPECT_THAT(dark, ::testing::Not(::testing::HasSubstr("." + box + "{")));
  }
}

TEST(PaletteTest, NoTwoColorsAreEqual) {
  std::set<std::string> colors;
  for (int stage = 0; stage < kNumStageHues; ++stage) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      EXPECT_TRUE(colors.insert(HexText(PassColor(stage, pass))).second);
    }
  }
  for (int component = 0; component < kNumFrozenHues; ++component) {
    for (const bool next_step : {false, true}) {
      EXPECT_TRUE(colors.insert(HexText(FrozenColor(component, next_step))).second);
    }
  }
}

// Distance in OKLab, in which 0.02 is just distinguishable side by side.
double Distance(Rgb x, Rgb y) {
  const auto lab = [](Rgb color) {
    const auto linear = [](double c) {
      return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    const double r = linear(color.red), g = linear(color.green), b = linear(color.blue);
    const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return std::array<double, 3>{0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
                                 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
                                 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
  };
  const std::array<double, 3> a = lab(x), b = lab(y);
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

TEST(PaletteTest, SeriesAreDistinguishableAndVisible) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    for (int i = 0; i < kNumSeriesColors; ++i) {
      const Rgb color = SeriesColor(theme, i);
      EXPECT_GE(ContrastRatio(color, SurfaceColor(theme)), 3) << i << " " << HexText(color);
      for (int j = 0; j < i; ++j) {
        EXPECT_GE(Distance(color, SeriesColor(theme, j)), 0.13) << i << " and " << j;
      }
    }
  }
}

TEST(PaletteTest, SeriesBeyondTheColorsHaveDashes) {
  std::set<std::string> attributes;
  for (int i = 0; i < 4 * kNumSeriesColors; ++i) attributes.insert(SeriesAttributes(i));
  EXPECT_EQ(attributes.size(), 4u * kNumSeriesColors);
  EXPECT_EQ(SeriesAttributes(3), "class=\"curve q3\"");
}

TEST(PaletteTest, CssHasBothThemes) {
  const std::string css = TimelineCss();
  EXPECT_THAT(css, ::testing::HasSubstr(".s0f{fill:" + HexText(PassColor(0, Pass::kForward))));
  EXPECT_THAT(css, ::testing::HasSubstr(".bg{fill:" + HexText(SurfaceColor(Theme::kLight))));
  EXPECT_THAT(css, ::testing::HasSubstr(".bg{fill:" + HexText(SurfaceColor(Theme::kDark))));
  EXPECT_THAT(css, ::testing::HasSubstr("prefers-color-scheme:dark"));
  EXPECT_EQ(PassClass(9, Pass::kBackward), "s1b") << "hues repeat";
}

}  // namespace
}  // namespace dpipe::report
