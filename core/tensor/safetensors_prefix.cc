#include "core/tensor/safetensors_prefix.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/files/durable_file.h"
#include "core/base/files/open_file.h"
#include "core/tensor/safetensors_header.h"

namespace dpipe {
namespace {

using ReadFn = std::function<absl::StatusOr<absl::string_view>(size_t i)>;

// Writes the prefix and the tensors in this order.
absl::Status Write(const std::string& path, const std::string& prefix,
                   const std::vector<SafetensorsEntry>& tensors, const std::vector<size_t>& order,
                   const ReadFn& read) {
  DPIPE_ASSIGN_OR_RETURN(const auto file, DurableFile::Create(path));
  DPIPE_RETURN_IF_ERROR(file->Append(prefix));
  for (size_t i : order) {
    DPIPE_ASSIGN_OR_RETURN(const absl::string_view bytes, read(i));
    DPIPE_ASSIGN_OR_RETURN(const int64_t expected,
                           internal::SafetensorsBytes(tensors[i].dtype, tensors[i].shape));
    if (static_cast<int64_t>(bytes.size()) != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor \"", tensors[i].name,
                       "\": ", internal::DescribeTensor(tensors[i].dtype, tensors[i].shape),
                       " takes ", expected, " bytes, but ", bytes.size(), " are given"));
    }
    DPIPE_RETURN_IF_ERROR(file->Append(bytes));
  }
  return file->Finish();
}

}  // namespace

absl::StatusOr<std::string> SafetensorsPrefix(const std::vector<SafetensorsEntry>& tensors,
                                              const SafetensorsMetadata& metadata) {
  internal::SafetensorsHeader header;
  header.metadata = metadata;
  int64_t at = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      return absl::InvalidArgumentError("a tensor is named __metadata__, which is reserved");
    }
    const auto bytes = internal::SafetensorsBytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", tensor.name, "\": ", bytes.status().message()));
    }
    header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, at, at + *bytes});
    at += *bytes;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text, internal::FormatSafetensorsHeader(header));
  // Reuses the reader's checks, which find duplicate names.
  DPIPE_RETURN_IF_ERROR(internal::ParseSafetensorsHeader(text, at).status());
  std::string prefix;
  for (int i = 0; i < 8; ++i) prefix += static_cast<char>(text.size() >> (8 * i));
  return prefix + text;
}

absl::Status WriteSafetensorsInTurn(const std::string& path,
                                    const std::vector<SafetensorsEntry>& tensors,
                                    const ReadFn& read) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&tensors](size_t a, size_t b) {
    const int rank_a = internal::SafetensorsDtypeRank(tensors[a].dtype);
    const int rank_b = internal::SafetensorsDtypeRank(tensors[b].dtype);
    return rank_a != rank_b ? rank_a > rank_b : tensors[a].name < tensors[b].name;
  });
  std::vector<SafetensorsEntry> sorted;
  for (size_t i : order) sorted.push_back(tensors[i]);
  DPIPE_ASSIGN_OR_RETURN(const std::string prefix, SafetensorsPrefix(sorted));
  const std::string partial = path + ".partial";
  const absl::Status status = Write(partial, prefix, tensors, order, read);
  if (!status.ok()) {
    ::unlink(partial.c_str());
    return status;
  }
  if (::rename(partial.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return FileError("cannot rename to", path, errno);
}

}  // namespace dpipe
