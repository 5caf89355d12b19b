#include "data/scenes/scene_recognizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kCount = 400;
constexpr uint64_t kSeed = 77;

Image WithNoise(Image image, float sigma, int index) {
  RandomStream random(5, index, 0, RandomPurpose::kTest);
  for (uint8_t& value : image.pixels) {
    const float noisy = value + sigma * random.NextNormal();
    value = static_cast<uint8_t>(std::min(255.0f, std::max(0.0f, std::round(noisy))));
  }
  return image;
}

// Weights 1 2 1 along both axes, a Gaussian of 0.7 pixels.
Image Blurred(const Image& image) {
  Image result = image;
  const auto at = [&image](int x, int y, int c) {
    return int{image.At(std::clamp(x, 0, image.width - 1), std::clamp(y, 0, image.height - 1))[c]};
  };
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        int sum = 0;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx)
            sum += (2 - dx * dx) * (2 - dy * dy) * at(x + dx, y + dy, c);
        }
        result.At(x, y)[c] = static_cast<uint8_t>((sum + 8) / 16);
      }
    }
  }
  return result;
}

struct Shares {
  double colors_and_shapes = 0;
  double all = 0;
};

// Returns the share of scenes, after `change`, that match the caption of the scene `shift` places
// later.
Shares ShareThatHolds(int side, int shift, const std::function<Image(const Image&, int)>& change) {
  Shares shares;
  for (int i = 0; i < kCount; ++i) {
    const Image image = change(RenderScene(DrawScene(kSeed, i), side), i);
    const int other = (i + shift) % kCount;
    const auto match = MatchCaption(image, CaptionOfScene(DrawScene(kSeed, other), kSeed, other));
    EXPECT_TRUE(match.ok()) << match.status();
    shares.colors_and_shapes += match->ColorsAndShapesHold() * (1.0 / kCount);
    shares.all += match->AllHolds() * (1.0 / kCount);
  }
  return shares;
}

Image Unchanged(const Image& image, int) { return image; }

TEST(SceneRecognizerTest, CaptionsOfCleanScenesHold) {
  for (const int side : {64, 96}) {
    const Shares shares = ShareThatHolds(side, 0, Unchanged);
    EXPECT_GE(shares.colors_and_shapes, 0.99) << side;
    EXPECT_GE(shares.all, 0.99) << side;
  }
}

TEST(SceneRecognizerTest, ToleratesNoise) {
  const Shares shares = ShareThatHolds(
      64, 0, [](const Image& image, int index) { return WithNoise(image, 12, index); });
  EXPECT_GE(shares.colors_and_shapes, 0.99);
  EXPECT_GE(shares.all, 0.99);
}

TEST(SceneRecognizerTest, ToleratesBlur) {
  const Shares shares =
      ShareThatHolds(64, 0, [](const Image& image, int) { return Blurred(image); });
  EXPECT_GE(shares.colors_and_shapes, 0.99);
  EXPECT_GE(shares.all, 0.985);
}

TEST(SceneRecognizerTest, ToleratesBlurAndNoise) {
  const Shares shares = ShareThatHolds(
      64, 0, [](const Image& image, int index) { return WithNoise(Blurred(image), 8, index); });
  EXPECT_GE(shares.colors_and_shapes, 0.985);
}

// By chance, a colour is right once in 8 and a shape once in 5, so one object once in 40 and two
// almost never: 0.6 / 40 = 1.5 % of pairs. It is a little more, because a large second object may
// match a single one.
TEST(SceneRecognizerTest, OtherScenesCaptionsHoldByChanceOnly) {
  for (const int shift : {1, 17, 100}) {
    const Shares shares = ShareThatHolds(64, shift, Unchanged);
    EXPECT_LT(shares.colors_and_shapes, 0.05) << shift;
    EXPECT_LT(shares.all, 0.03) << shift;
  }
}

TEST(SceneRecognizerTest, PlainNoiseMatchesNoCaption) {
  for (int i = 0; i < 20; ++i) {
    const Image image = WithNoise(Image(64, 64), 80, i);
    EXPECT_FALSE(MatchCaption(image, CaptionOfScene(DrawScene(kSeed, i), kSeed, i))->AllHolds());
  }
}

TEST(SceneRecognizerTest, PositionsAndRadiiAreMeasured) {
  for (int i = 0; i < 200; ++i) {
    const Scene scene = DrawScene(kSeed, i);
    const RecognizedScene found = RecognizeScene(RenderScene(scene, 64));
    ASSERT_EQ(found.objects.size(), scene.objects.size()) << i;
    EXPECT_EQ(found.background, scene.background);
    for (const SceneObject& object : scene.objects) {
      const auto same_color =
          std::find_if(found.objects.begin(), found.objects.end(),
                       [&](const RecognizedObject& r) { return r.object.color == object.color; });
      ASSERT_NE(same_color, found.objects.end()) << i;
      EXPECT_NEAR(same_color->object.center_x, object.center_x, 0.5 / 64) << i;
      EXPECT_NEAR(same_color->object.center_y, object.center_y, 0.5 / 64) << i;
      EXPECT_NEAR(same_color->object.radius, object.radius, 0.5 / 64) << i;
      EXPECT_GT(same_color->shape_iou, 0.9) << i;
    }
  }
}

// Makes each part of a claim false separately.
TEST(SceneRecognizerTest, EachPartOfTheClaimCounts) {
  Scene scene;
  scene.background = SceneBackground::kGray;
  scene.objects = {{SceneShape::kCircle, SceneColor::kRed, true, 0.25f, 0.5f, 13.0f / 64},
                   {SceneShape::kStar, SceneColor::kBlue, false, 0.75f, 0.6f, 8.0f / 64}};
  const Image image = RenderScene(scene, 64);
  const auto match = [&image](const std::string& caption) { return *MatchCaption(image, caption); };
  EXPECT_TRUE(
      match("a large red circle left of a small blue star on a gray background").AllHolds());
  EXPECT_TRUE(match("a blue star to the right of a red circle").AllHolds());

  EXPECT_EQ(match("a red circle left of a green star").num_objects_right, 1);
  EXPECT_EQ(match("a red circle left of a green star").num_colors_right, 1);
  EXPECT_EQ(match("a red circle left of a green star").num_shapes_right, 2);
  EXPECT_EQ(match("a red square left of a blue star").num_shapes_right, 1);
  EXPECT_FALSE(match("a red square left of a blue star").ColorsAndShapesHold());
  // The colours and shapes are present, but not together.
  EXPECT_EQ(match("a blue circle left of a red star").num_objects_right, 0);
  for (const char* relation : {"right of", "above", "below"}) {
    const SceneMatch wrong = match(std::string("a red circle ") + relation + " a blue star");
    EXPECT_TRUE(wrong.ColorsAndShapesHold());
    EXPECT_FALSE(wrong.relation_right) << relation;
  }
  EXPECT_FALSE(match("a small red circle left of a small blue star").sizes_right);
  EXPECT_FALSE(match("a red circle left of a blue star on a black background").background_right);
  EXPECT_FALSE(MatchCaption(image, "a nice picture").ok());
}

TEST(SceneRecognizerTest, AMissingObjectIsNotRight) {
  Scene scene;
  scene.objects = {{SceneShape::kCircle, SceneColor::kRed, true, 0.25f, 0.5f, 13.0f / 64}};
  const SceneMatch match =
      *MatchCaption(RenderScene(scene, 64), "a red circle left of a blue star");
  EXPECT_EQ(match.num_objects_right, 1);
  EXPECT_FALSE(match.ColorsAndShapesHold());
  EXPECT_FALSE(match.relation_right);
  EXPECT_FALSE(MatchCaption(Image(64, 64), "a red circle")->ColorsAndShapesHold());
}

}  // namespace
}  // namespace dpipe
