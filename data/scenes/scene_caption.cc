#include "data/scenes/scene_caption.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dpipe {
namespace {

constexpr float kSizeMentionedShare = 0.6f;
constexpr float kBackgroundMentionedShare = 0.5f;

std::string ObjectPhrase(const SceneObject& object, bool with_size) {
  if (with_size) {
    return absl::StrCat("a ", object.is_large ? "large " : "small ", NameOf(object.color), " ",
                        NameOf(object.shape));
  }
  const char* article = object.color == SceneColor::kOrange ? "an " : "a ";
  return absl::StrCat(article, NameOf(object.color), " ", NameOf(object.shape));
}

// The words of a caption, consumed from the front.
class Words {
 public:
  explicit Words(const std::string& text)
      : words_(absl::StrSplit(absl::AsciiStrToLower(text), absl::ByAnyChar(" \t\r\n"),
                              absl::SkipEmpty())) {}

  bool AtEnd() const { return next_ == words_.size(); }
  std::string Peek() const { return AtEnd() ? "the end" : words_[next_]; }
  bool Take(const std::string& word) {
    if (AtEnd() || words_[next_] != word) return false;
    ++next_;
    return true;
  }
  // Consumes the word if it names one of the first `count` values of the enumeration.
  template <typename Enum>
  std::optional<Enum> TakeNamed(int count) {
    for (int i = 0; i < count; ++i) {
      if (Take(NameOf(static_cast<Enum>(i)))) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }
  absl::Status Expected(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("caption: expected ", what, ", found \"", Peek(), "\""));
  }

 private:
  std::vector<std::string> words_;
  size_t next_ = 0;
};

absl::StatusOr<ObjectClaim> ParseObject(Words& words) {
  if (!words.Take("a") && !words.Take("an")) return words.Expected("\"a\" or \"an\"");
  ObjectClaim claim;
  if (words.Take("large")) {
    claim.is_large = true;
  } else if (words.Take("small")) {
    claim.is_large = false;
  }
  const auto color = words.TakeNamed<SceneColor>(kNumSceneColors);
  if (!color) return words.Expected("a colour");
  const auto shape = words.TakeNamed<SceneShape>(kNumSceneShapes);
  if (!shape) return words.Expected("a shape");
  claim.color = *color;
  claim.shape = *shape;
  return claim;
}

absl::StatusOr<SceneRelation> ParseRelation(Words& words) {
  if (words.Take("above")) return SceneRelation::kAbove;
  if (words.Take("below")) return SceneRelation::kBelow;
  if (words.Take("to") && !words.Take("the")) return words.Expected("\"the\"");
  const bool left = words.Take("left");
  if (!left && !words.Take("right")) return words.Expected("a relation");
  if (!words.Take("of")) return words.Expected("\"of\"");
  return left ? SceneRelation::kLeftOf : SceneRelation::kRightOf;
}

}  // namespace

std::string WriteCaption(const Scene& scene, RandomStream& random) {
  const bool with_size = random.NextUniform() < kSizeMentionedShare;
  const bool with_background = random.NextUniform() < kBackgroundMentionedShare;
  const bool swapped = random.NextBelow(2) == 1;
  const bool long_wording = random.NextBelow(2) == 1;
  std::string caption;
  if (scene.objects.size() == 1) {
    caption = ObjectPhrase(scene.objects[0], with_size);
  } else {
    const SceneObject& first = scene.objects[swapped ? 1 : 0];
    const SceneObject& second = scene.objects[swapped ? 0 : 1];
    const char* relation =
        scene.is_vertical ? (swapped ? "below" : "above") : (swapped ? "right of" : "left of");
    caption = absl::StrCat(ObjectPhrase(first, with_size),
                           long_wording && !scene.is_vertical ? " to the " : " ", relation, " ",
                           ObjectPhrase(second, with_size));
  }
  if (with_background) absl::StrAppend(&caption, " on a ", NameOf(scene.background), " background");
  return caption;
}

std::string CaptionOfScene(const Scene& scene, uint64_t seed, uint64_t index) {
  // Sample 1, so that these numbers differ from those that drew the scene (sample 0).
  RandomStream random(seed, index, /*sample=*/1, RandomPurpose::kDataset);
  return WriteCaption(scene, random);
}

absl::StatusOr<CaptionClaim> ParseCaption(const std::string& caption) {
  Words words(caption);
  CaptionClaim claim;
  DPIPE_ASSIGN_OR_RETURN(ObjectClaim first, ParseObject(words));
  claim.objects.push_back(first);
  if (!words.AtEnd() && words.Peek() != "on") {
    DPIPE_ASSIGN_OR_RETURN(claim.relation, ParseRelation(words));
    DPIPE_ASSIGN_OR_RETURN(ObjectClaim second, ParseObject(words));
    claim.objects.push_back(second);
  }
  if (words.Take("on")) {
    if (!words.Take("a")) return words.Expected("\"a\"");
    claim.background = words.TakeNamed<SceneBackground>(kNumSceneBackgrounds);
    if (!claim.background) return words.Expected("a background");
    if (!words.Take("background")) return words.Expected("\"background\"");
  }
  if (!words.AtEnd()) return words.Expected("the end");
  return claim;
}

}  // namespace dpipe
