#include "models/weights/weight_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStems[] = {"diffusion_pytorch_model", "model"};
constexpr const char* kVariants[] = {"", ".fp16", ".bf16"};
// Endings of each library's weight files, in order of preference for the message. A file with the
// first ending has a name that is not searched for.
constexpr struct {
  const char *ending, *format;
} kFormats[] = {
    {".safetensors", nullptr}, {".bin", "PyTorch's"}, {".ckpt", "PyTorch's"},
    {".pt", "PyTorch's"},      {".pth", "PyTorch's"}, {".msgpack", "Flax's"},
    {".h5", "TensorFlow's"},   {".onnx", "ONNX's"},
};
constexpr const char* kIndexMarks[] = {".safetensors.index.", ".bin.index.", ".msgpack.index."};
constexpr const char* kWrappers[] = {"_orig_mod.", "module."};
// An index has some 100 bytes per tensor; the largest public ones have a few thousand tensors.
constexpr int64_t kMaxIndexBytes = 16 * kMiB;

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

// Returns an error with the name of a weight file that cannot be read, if the folder has one.
absl::Status ForeignWeights(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const auto& known : kFormats) {
    for (const std::string& name : names) {
      if (!absl::EndsWith(name, known.ending)) continue;
      const std::string path = absl::StrCat(folder, "/", ShowText(name));
      if (known.format == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, " has an unrecognised name; rename it to ", kDiffusersWeights,
                         " (U-Net, VAE) or ", kTransformersWeights));
      }
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weights in ", known.format,
                       " own format are not read, only safetensors; convert the model in Python: "
                       "DiffusionPipeline.from_pretrained('MODEL').save_pretrained('NEW')"));
    }
  }
  return absl::OkStatus();
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
  const absl::Status foreign = ForeignWeights(folder);
  if (!foreign.ok()) return foreign;
  return absl::NotFoundError(absl::StrCat(folder, ": neither ", kDiffusersWeights, " nor ",
                                          kTransformersWeights, " was found"));
}

// The names of the tensors of each shard.
using Shards = std::map<std::string, std::set<std::string>>;

// True for a plain name without folders, so that an index cannot point out of its own folder.
bool IsShardName(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") && name[0] != '.' &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

absl::StatusOr<Shards> ParseIndex(const std::string& text, const std::string& name) {
  DPIPE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, name));
  if (!json.contains("weight_map") || !json["weight_map"].is_object() ||
      json["weight_map"].empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": no object \"weight_map\" of tensors"));
  }
  Shards shards;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !IsShardName(file.get<std::string>())) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", ShowText(tensor), " is in ",
                                                     ShowJson(file),
                                                     ", not a .safetensors file of the folder"));
    }
    shards[file.get<std::string>()].insert(tensor);
  }
  return shards;
}

// Checks that the shard has exactly the tensors listed for it in the index.
absl::Status CheckShard(const SafetensorsFile& shard, const std::set<std::string>& listed,
                        const std::string& index) {
  for (const std::string& tensor : listed) {
    if (shard.Find(tensor) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(index, ": ", ShowText(tensor), " is not in ",
                                                     shard.name(), ", where it is listed"));
    }
  }
  for (const SafetensorsView& view : shard.tensors()) {
    if (listed.count(view.name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(index, ": ", ShowText(view.name), " is in ",
                                                     shard.name(), ", where it is not listed"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shards> ReadIndex(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
  return ParseIndex(text, path);
}

bool AllBeginWith(const std::vector<SafetensorsFile>& files, const std::string& prefix) {
  return std::all_of(files.begin(), files.end(), [&prefix](const SafetensorsFile& file) {
    return std::all_of(
        file.tensors().begin(), file.tensors().end(),
        [&prefix](const SafetensorsView& view) { return absl::StartsWith(view.name, prefix); });
  });
}

std::string WrapperOf(const std::vector<SafetensorsFile>& files) {
  std::string wrapper;
  if (AllBeginWith(files, "\xff")) return wrapper;  // there are no tensors
  for (int round = 0; round < 2; ++round) {         // there may be both, in either order
    for (const char* known : kWrappers) {
      if (AllBeginWith(files, wrapper + known)) wrapper += known;
    }
  }
  return wrapper;
}

absl::StatusOr<WeightFiles> OpenIndex(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const Shards shards, ReadIndex(path));
  WeightFiles weights;
  weights.name = path;
  const std::string folder = path.substr(0, path.find_last_of('/') + 1);
  for (const auto& [file, listed] : shards) {
    DPIPE_ASSIGN_OR_RETURN(SafetensorsFile shard, SafetensorsFile::Open(folder + file));
    DPIPE_RETURN_IF_ERROR(CheckShard(shard, listed, path));
    weights.files.push_back(std::move(shard));
  }
  weights.wrapper = WrapperOf(weights.files);
  return weights;
}

}  // namespace

bool IsWeightFile(const std::string& name) {
  for (const char* mark : kIndexMarks) {
    if (absl::StrContains(name, mark)) return true;
  }
  return std::any_of(std::begin(kFormats), std::end(kFormats),
                     [&name](const auto& known) { return absl::EndsWith(name, known.ending); });
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
  WeightFiles weights;
  weights.name = file_path;
  weights.files.push_back(std::move(file));
  weights.wrapper = WrapperOf(weights.files);
  return weights;
}

std::vector<std::string> WrapperNotes(const std::vector<std::string>& paths) {
  std::vector<std::string> notes;
  for (const std::string& path : paths) {
    const auto weights = OpenWeights(path);
    if (!weights.ok() || weights->wrapper.empty()) continue;
    notes.push_back(
        absl::StrCat(weights->name, ": every name begins with '", weights->wrapper,
                     "', as added by torch.compile or DataParallel; this prefix is ignored"));
  }
  return notes;
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
