#include "models/trainable/model_kind.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {

absl::StatusOr<ModelIndex> ParseModelIndex(const std::string& text, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  const auto class_name = json.find("_class_name");
  if (class_name == json.end() || !class_name->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no string _class_name"));
  }
  ModelIndex index;
  index.class_name = class_name->get<std::string>();
  // A component is [library, class]; [null, null] is one that the pipeline could have.
  for (const auto& [key, value] : json.items()) {
    if (value.is_array() && value.size() == 2 && value[1].is_string()) index.components.insert(key);
  }
  return index;
}

}  // namespace dpipe::models
