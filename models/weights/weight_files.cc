#include "models/weights/weight_files.h"

#include <sys/stat.h>

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using Json = nlohmann::json;

constexpr const char* kStems[] = {"diffusion_pytorch_model", "model"};
constexpr const char* kVariants[] = {"", ".fp16", ".bf16"};
constexpr const char* kPyTorchFiles[] = {"diffusion_pytorch_model.bin", "pytorch_model.bin"};
// An index has some 100 bytes a tensor; the largest public ones have a few thousand tensors.
constexpr int64_t kMaxIndexBytes = 16 * kMiB;

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::StatusOr<std::string> FindFile(const std::string& folder) {
  for (const char* variant : kVariants) {
    for (const char* stem : kStems) {
      for (const std::string& name : {absl::StrCat(stem, variant, ".safetensors"),
                                      absl::StrCat(stem, ".safetensors.index", variant, ".json")}) {
        if (Exists(absl::StrCat(folder, "/", name))) return absl::StrCat(folder, "/", name);
      }
    }
  }
  for (const char* name : kPyTorchFiles) {
    if (!Exists(absl::StrCat(folder, "/", name))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/", name, ": PyTorch's own format is not read; convert it to ",
                     kDiffusersWeights, " or ", kTransformersWeights));
  }
  return absl::NotFoundError(absl::StrCat(folder, ": neither ", kDiffusersWeights, " nor ",
                                          kTransformersWeights, " is there"));
}

// By shard, the names of its tensors.
using Shards = std::map<std::string, std::set<std::string>>;

// A plain name: no folders, so that an index cannot point out of its own.
bool IsShardName(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") && name[0] != '.' &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

absl::StatusOr<Shards> ParseIndex(const std::string& text, const std::string& name) {
  std::set<std::string> keys;
  std::string repeated;
  // The library keeps the last of several equal keys; depth 2 is inside "weight_map".
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 2 &&
        !keys.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return depth < 8;  // far deeper than any index
  };
  const Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object() ||
      json["weight_map"].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": not a JSON object with a \"weight_map\" of tensors"));
  }
  if (!repeated.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", repeated, " is listed twice"));
  }
  Shards shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !IsShardName(file.get<std::string>())) {
      const std::string value = file.dump(-1, ' ', false, Json::error_handler_t::replace);
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", tensor, " is in ",
                                                     value.substr(0, 100),
                                                     ", not a .safetensors file of the folder"));
    }
    shards[file.get<std::string>()].insert(tensor);
  }
  return shards;
}

// The shard has what the index lists for it, and nothing else.
absl::Status CheckShard(const SafetensorsFile& shard, const std::set<std::string>& listed,
                        const std::string& index) {
  for (const std::string& tensor : listed) {
    if (shard.Find(tensor) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(index, ": ", tensor, " is not in ", shard.name(), ", where it is listed"));
    }
  }
  for (const SafetensorsView& view : shard.tensors()) {
    if (listed.count(view.name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(index, ": ", view.name, " is in ",
                                                     shard.name(), ", where it is not listed"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shards> ReadIndex(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
  return ParseIndex(text, path);
}

absl::StatusOr<WeightFiles> OpenIndex(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const Shards shards, ReadIndex(path));
  WeightFiles weights{path, {}};
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  for (const auto& [file, listed] : shards) {
    DPIPE_ASSIGN_OR_RETURN(SafetensorsFile shard, SafetensorsFile::Open(folder + file));
    DPIPE_RETURN_IF_ERROR(CheckShard(shard, listed, path));
    weights.files.push_back(std::move(shard));
  }
  return weights;
}

}  // namespace

bool IsWeightFile(const std::string& name) {
  for (const char* index : {".safetensors.index.", ".bin.index.", ".msgpack.index."}) {
    if (absl::StrContains(name, index)) return true;
  }
  for (const char* end : {".safetensors", ".bin", ".ckpt", ".msgpack", ".h5", ".onnx"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return false;
}

bool HasWeights(const std::string& folder) {
  return IsFolder(folder) && !absl::IsNotFound(FindFile(folder).status());
}

absl::StatusOr<WeightFiles> OpenWeights(const std::string& path) {
  std::string file_path = path;
  if (IsFolder(path)) {
    DPIPE_ASSIGN_OR_RETURN(file_path, FindFile(path));
  }
  if (absl::EndsWith(file_path, ".json")) return OpenIndex(file_path);
  DPIPE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(file_path));
  WeightFiles weights{file_path, {}};
  weights.files.push_back(std::move(file));
  return weights;
}

absl::StatusOr<std::vector<std::string>> WeightFileNames(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const std::string path, FindFile(folder));
  std::vector<std::string> names = {path.substr(folder.size() + 1)};
  if (!absl::EndsWith(path, ".json")) return names;
  DPIPE_ASSIGN_OR_RETURN(const Shards shards, ReadIndex(path));
  for (const auto& [file, listed] : shards) names.push_back(file);
  return names;
}

std::string WithoutVariant(const std::string& name) {
  for (const std::string variant : {".fp16", ".bf16"}) {
    const size_t at = name.rfind(variant + ".");
    if (at != std::string::npos) return name.substr(0, at) + name.substr(at + variant.size());
  }
  return name;
}

}  // namespace dpipe::models
