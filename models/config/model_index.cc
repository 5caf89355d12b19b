#include "models/config/model_index.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr char kExpected[] =
    "expected a folder in diffusers layout, with a model_index.json and a subfolder for each "
    "component";

// What is at `folder`, which is not a model's.
std::string WhatIsThere(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::StrCat("there is no model folder ", folder);
  if (!fs::is_directory(folder, error)) {
    const std::string extension = fs::path(folder).extension().string();
    const bool weights = extension == ".safetensors" || extension == ".ckpt" || extension == ".bin";
    return absl::StrCat(folder, weights ? " is a single file of weights" : " is a file", "; ",
                        kExpected,
                        weights ? " (diffusers' from_single_file and save_pretrained make one of a "
                                  "whole model's weights)"
                                : "");
  }
  const auto text = ReadFile(folder + "/config.json");
  if (text.ok()) {
    const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    const auto name = json.is_object() ? json.find("_class_name") : json.end();
    return absl::StrCat(folder, " is the folder of one component",
                        name != json.end() && name->is_string()
                            ? absl::StrCat(", a ", name->get<std::string>())
                            : "",
                        ", not of a model; ", kExpected);
  }
  return absl::StrCat(folder, " has no model_index.json; ", kExpected);
}

// An index may come from anyone, and must not point out of its folder.
bool IsSubfolderName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find_first_of(std::string("/\0", 2)) == name.npos;
}

}  // namespace

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
    if (!value.is_array() || value.size() != 2 || !value[1].is_string()) continue;
    if (!IsSubfolderName(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the component '", key, "' has no name of a subfolder"));
    }
    index.components.insert(key);
  }
  return index;
}

absl::StatusOr<ModelIndex> ReadModelIndex(const std::string& folder) {
  const std::string path = folder + "/model_index.json";
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(WhatIsThere(folder));
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseModelIndex(text, path);
}

std::string WithoutComponents(const std::string& text, const std::set<std::string>& components) {
  if (components.empty()) return text;
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);  // it was parsed before
  for (const std::string& name : components) json[name] = {nullptr, nullptr};
  if (components.count("safety_checker") > 0) json["requires_safety_checker"] = false;
  return json.dump(2) + "\n";
}

}  // namespace dpipe::models
