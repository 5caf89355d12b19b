#include "tools/sampling/scoring.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "data/scenes/scene_caption.h"
#include "data/scenes/scene_recognizer.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {

std::vector<ScorePrompt> DrawScorePrompts(uint64_t seed, int num_objects, int count) {
  DPIPE_CHECK(num_objects == 1 || num_objects == 2) << num_objects;
  std::vector<ScorePrompt> prompts;
  for (uint64_t index = 0; static_cast<int>(prompts.size()) < count; ++index) {
    const Scene scene = DrawScene(seed, index);
    if (static_cast<int>(scene.objects.size()) != num_objects) continue;
    prompts.push_back({CaptionOfScene(scene, seed, index), scene});
  }
  return prompts;
}

absl::StatusOr<Score> ScoreImages(const std::string& subject,
                                  const std::vector<ScorePrompt>& prompts,
                                  const std::vector<Image>& images) {
  DPIPE_CHECK_EQ(prompts.size(), images.size());
  Score score;
  score.subject = subject;
  for (size_t i = 0; i < images.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(const SceneMatch match, MatchCaption(images[i], prompts[i].caption));
    const bool both = match.ColorsAndShapesHold();
    score.num_objects = match.num_claimed;
    score.num_images += 1;
    score.colors += match.num_colors_right == match.num_claimed;
    score.shapes += match.num_shapes_right == match.num_claimed;
    score.both += both;
    score.relations += both && match.relation_right;
    score.all += match.AllHolds();
  }
  return score;
}

report::Table ScoreTable(const std::vector<Score>& scores) {
  report::Table table({"images of", "objects", "images", "colour", "shape", "both", "+ relation",
                       "+ size, background"});
  for (const Score& score : scores) {
    auto percent = [&](int count) { return absl::StrFormat("%.0f %%", 100 * score.Share(count)); };
    table.AddRow({score.subject, absl::StrCat(score.num_objects), absl::StrCat(score.num_images),
                  percent(score.colors), percent(score.shapes), percent(score.both),
                  score.num_objects > 1 ? percent(score.relations) : "-", percent(score.all)});
  }
  return table;
}

std::string ScoresJson(const std::string& model, const std::vector<Score>& scores) {
  nlohmann::ordered_json json;
  json["format"] = "dpipe.scores";
  json["model"] = model;
  json["scores"] = nlohmann::ordered_json::array();
  for (const Score& score : scores) {
    json["scores"].push_back({{"subject", score.subject},
                              {"objects", score.num_objects},
                              {"images", score.num_images},
                              {"color", score.Share(score.colors)},
                              {"shape", score.Share(score.shapes)},
                              {"both", score.Share(score.both)},
                              {"relation", score.Share(score.relations)},
                              {"all", score.Share(score.all)}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dpipe::tools
