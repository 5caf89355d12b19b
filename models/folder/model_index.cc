#include "models/folder/model_index.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr char kExpected[] =
    "expected a folder in diffusers layout, with a model_index.json and a subfolder for each "
    "component";

// Returns the string `_class_name`, or "" if there is none.
std::string ClassOf(const nlohmann::json& object) {
  const auto name = object.find("_class_name");
  return name != object.end() && name->is_string() ? name->get<std::string>() : "";
}

// Describes what is at `folder`, which holds no model.
std::string DescribeFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::StrCat("there is no model folder ", folder);
  if (!fs::is_directory(folder, error)) {
    const std::string extension = fs::path(folder).extension().string();
    const bool is_safetensors = extension == ".safetensors";
    const bool weights = is_safetensors || extension == ".ckpt" || extension == ".bin";
    return absl::StrCat(
        folder, weights ? " is a single file of weights" : " is a file", "; ", kExpected,
        is_safetensors ? absl::StrCat(" (bazel run //tools:convert -- --model=", folder,
                                      " --out=FOLDER makes one of a whole model's file)")
        : weights
            ? " (diffusers' from_single_file and save_pretrained convert a whole model's weights)"
            : "");
  }
  const auto text = ReadFile(folder + "/config.json");
  if (text.ok()) {
    const auto json = ParseJsonObject(*text, folder + "/config.json");
    const std::string name = json.ok() ? ClassOf(*json) : "";
    return absl::StrCat(folder, " is the folder of one component",
                        name.empty() ? "" : absl::StrCat(", a ", ShowText(name)),
                        ", not of a model; ", kExpected);
  }
  return absl::StrCat(folder, " has no model_index.json; ", kExpected);
}

// An index may come from an untrusted source, so it must not point out of its folder.
bool IsSubfolderName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find_first_of(std::string("/\0", 2)) == name.npos;
}

}  // namespace

absl::StatusOr<ModelIndex> ParseModelIndex(const std::string& text, const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, path));
  ModelIndex index;
  index.class_name = ClassOf(json);
  if (index.class_name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no string _class_name"));
  }
  const auto zeros = json.find("force_zeros_for_empty_prompt");
  if (zeros != json.end() && zeros->is_boolean()) {
    index.force_zeros_for_empty_prompt = zeros->get<bool>();
  }
  // A component is [library, class]; [null, null] is an optional component that is absent.
  for (const auto& [key, value] : json.items()) {
    if (!value.is_array() || value.size() != 2 || !value[1].is_string()) continue;
    if (!IsSubfolderName(key)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": the component name '", ShowText(key),
                                                     "' is not a valid subfolder name"));
    }
    index.components.insert(key);
    if (key == "scheduler") index.scheduler_class = value[1].get<std::string>();
  }
  return index;
}

absl::StatusOr<ModelIndex> ReadModelIndex(const std::string& folder) {
  const std::string path = folder + "/model_index.json";
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(DescribeFolder(folder));
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseModelIndex(text, path);
}

std::string WithoutComponents(const std::string& text, const std::set<std::string>& components) {
  if (components.empty()) return text;
  auto json = ParseJsonObject<nlohmann::ordered_json>(text, "model_index.json");
  DPIPE_CHECK(json.ok()) << json.status();  // the caller has parsed it
  for (const std::string& name : components) (*json)[name] = {nullptr, nullptr};
  if (components.count("safety_checker") > 0) (*json)["requires_safety_checker"] = false;
  return JsonText(*json, /*indent=*/2) + "\n";
}

}  // namespace dpipe::models
