#include "core/report/palette.h"

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
    for (int stage = 0; stage < kNumStageHues; ++stage) {
      for (const Pass pass : kAllPasses) {
        const Rgb color = PassColor(theme, stage, pass);
        EXPECT_GT(ContrastRatio(TextColorOn(color), color), 4.5) << HexText(color);
      }
    }
    for (int component = 0; component < kNumFrozenHues; ++component) {
      const Rgb color = FrozenColor(theme, component);
      EXPECT_GT(ContrastRatio(TextColorOn(color), color), 4.5) << HexText(color);
    }
  }
}

TEST(PaletteTest, ForwardAndBackwardDifferInLightness) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    for (int stage = 0; stage < kNumStageHues; ++stage) {
      EXPECT_GT(ContrastRatio(PassColor(theme, stage, Pass::kForward),
                              PassColor(theme, stage, Pass::kBackward)),
                2.5);
    }
  }
}

TEST(PaletteTest, NoTwoColorsAreEqual) {
  std::set<std::string> colors;
  for (int stage = 0; stage < kNumStageHues; ++stage) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      EXPECT_TRUE(colors.insert(HexText(PassColor(Theme::kLight, stage, pass))).second);
    }
  }
  for (int component = 0; component < kNumFrozenHues; ++component) {
    EXPECT_TRUE(colors.insert(HexText(FrozenColor(Theme::kLight, component))).second);
  }
}

TEST(PaletteTest, CssHasBothThemes) {
  const std::string css = TimelineCss();
  EXPECT_THAT(css, ::testing::HasSubstr(".s0f{fill:" +
                                        HexText(PassColor(Theme::kLight, 0, Pass::kForward))));
  EXPECT_THAT(css, ::testing::HasSubstr(".s0f{fill:" +
                                        HexText(PassColor(Theme::kDark, 0, Pass::kForward))));
  EXPECT_THAT(css, ::testing::HasSubstr("prefers-color-scheme:dark"));
  EXPECT_EQ(PassClass(9, Pass::kBackward), "s1b") << "hues repeat";
}

}  // namespace
}  // namespace dpipe::report
