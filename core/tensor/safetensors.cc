#include "core/tensor/safetensors.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/base/text/file_kind.h"
#include "core/tensor/safetensors_header.h"

namespace dpipe {
namespace {

using internal::DescribeTensor;
using internal::SafetensorsHeader;

constexpr int64_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

class Mapping {
 public:
  Mapping(void* start, size_t size) : start_(start), size_(size) {}
  ~Mapping() { munmap(start_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

 private:
  void* start_;
  size_t size_;
};

// Returns `status` with a name prefixed to its message.
absl::Status About(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

// Read and write the little-endian length at the front of a file.
uint64_t ReadPrefix(absl::string_view bytes) {
  uint64_t value = 0;
  for (int i = kPrefixBytes - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

std::string WritePrefix(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < kPrefixBytes; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// Returns advice on using a file of another kind.
std::string Advice(FileKind kind) {
  if (kind == FileKind::kPyTorchZip || kind == FileKind::kPickle) {
    return "convert it in Python: safetensors.torch.save_file(torch.load('FILE', "
           "map_location='cpu', weights_only=True), 'NEW.safetensors')";
  }
  return FileKindAdvice(kind);
}

// Explains why a file whose first bytes are no valid header length is not a safetensors file: by
// its kind, or by both numbers if the kind is unknown.
absl::Status NotSafetensors(const std::string& name, absl::string_view bytes,
                            uint64_t header_bytes) {
  const FileKind kind = KindOfFile(bytes.substr(0, kFileKindBytes));
  if (kind != FileKind::kUnknown && kind != FileKind::kSafetensors) {
    const std::string advice = Advice(kind);
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", FileKindName(kind),
                                                   ", not a safetensors file",
                                                   advice.empty() ? "" : ": ", advice));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": not a safetensors file, or truncated: a header of ", header_bytes,
                   " bytes in a file of ", bytes.size(), " (the limit is ", kMaxHeaderBytes, ")"));
}

// Lays out the header as the reference implementation does. Sizes must have been checked.
SafetensorsHeader LayOut(const std::vector<SafetensorsView>& tensors,
                         const SafetensorsMetadata& metadata) {
  std::vector<const SafetensorsView*> sorted;
  for (const SafetensorsView& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    const int rank_a = internal::SafetensorsDtypeRank(a->dtype);
    const int rank_b = internal::SafetensorsDtypeRank(b->dtype);
    return rank_a != rank_b ? rank_a > rank_b : a->name < b->name;
  });
  SafetensorsHeader header;
  header.metadata = metadata;
  int64_t at = 0;
  for (const SafetensorsView* tensor : sorted) {
    const int64_t end = at + static_cast<int64_t>(tensor->bytes.size());
    header.tensors.push_back({tensor->name, tensor->dtype, tensor->shape, at, end});
    at = end;
  }
  return header;
}

using ViewsByName = std::map<std::string, const SafetensorsView*>;

absl::StatusOr<ViewsByName> CheckTensors(const std::vector<SafetensorsView>& tensors) {
  ViewsByName by_name;
  for (const SafetensorsView& tensor : tensors) {
    const auto error = [&tensor](const auto&... parts) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\": ", parts...));
    };
    if (tensor.name == "__metadata__") return error("the name is reserved");
    if (!by_name.emplace(tensor.name, &tensor).second) return error("given twice");
    const auto expected = internal::SafetensorsBytes(tensor.dtype, tensor.shape);
    if (!expected.ok()) return error(expected.status().message());
    if (*expected != static_cast<int64_t>(tensor.bytes.size())) {
      return error(DescribeTensor(tensor.dtype, tensor.shape), " takes ", *expected, " bytes, but ",
                   tensor.bytes.size(), " are given");
    }
  }
  return by_name;
}

// Checks that a header to be reused describes exactly these tensors.
absl::Status CheckSame(const SafetensorsHeader& header, const ViewsByName& by_name) {
  for (const SafetensorsHeader::Tensor& tensor : header.tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", tensor.name, "\" is in the header, but was not given"));
    }
    const SafetensorsView& view = *found->second;
    if (view.dtype != tensor.dtype || view.shape != tensor.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", tensor.name, "\": ", DescribeTensor(tensor.dtype, tensor.shape),
                       " in the header, ", DescribeTensor(view.dtype, view.shape), " given"));
    }
  }
  if (header.tensors.size() == by_name.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the header has ", header.tensors.size(),
                                                 " tensors, ", by_name.size(), " are given"));
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenRegularFile(path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FileError("cannot read", path, errno);
  // an empty file cannot be mapped
  if (info.st_size == 0) return NotSafetensors(path, "", /*header_bytes=*/0);
  void* start = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (start == MAP_FAILED) return FileError("cannot map", path, errno);
  const absl::string_view bytes(static_cast<const char*>(start), info.st_size);
  return Parse(std::make_shared<const Mapping>(start, info.st_size), bytes, path);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::FromBytes(std::string bytes,
                                                           const std::string& name) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return Parse(owner, *owner, name);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Parse(std::shared_ptr<const void> owner,
                                                       absl::string_view bytes,
                                                       const std::string& name) {
  const uint64_t rest = bytes.size() < kPrefixBytes ? 0 : bytes.size() - kPrefixBytes;
  const uint64_t header_bytes = bytes.size() < kPrefixBytes ? 0 : ReadPrefix(bytes);
  if (header_bytes == 0 || header_bytes > rest || header_bytes > kMaxHeaderBytes) {
    return NotSafetensors(name, bytes, header_bytes);
  }
  SafetensorsFile file;
  file.owner_ = std::move(owner);
  file.name_ = name;
  file.header_text_ = bytes.substr(kPrefixBytes, header_bytes);
  const absl::string_view data = bytes.substr(kPrefixBytes + header_bytes);
  auto header = internal::ParseSafetensorsHeader(file.header_text_, data.size());
  if (!header.ok()) return About(name, header.status());
  file.metadata_ = std::move(header->metadata);
  for (SafetensorsHeader::Tensor& tensor : header->tensors) {
    file.places_[tensor.name] = file.tensors_.size();
    file.tensors_.push_back({std::move(tensor.name), std::move(tensor.dtype),
                             std::move(tensor.shape),
                             data.substr(tensor.begin, tensor.end - tensor.begin)});
  }
  return file;
}

const SafetensorsView* SafetensorsFile::Find(absl::string_view name) const {
  const auto place = places_.find(std::string(name));
  return place == places_.end() ? nullptr : &tensors_[place->second];
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsView>& tensors,
                              const SafetensorsWriteOptions& options) {
  const auto by_name = CheckTensors(tensors);
  if (!by_name.ok()) return About(path, by_name.status());
  int64_t data_bytes = 0;
  for (const SafetensorsView& tensor : tensors) data_bytes += tensor.bytes.size();
  absl::StatusOr<std::string> text = options.header_text;
  if (text->empty()) text = internal::FormatSafetensorsHeader(LayOut(tensors, options.metadata));
  if (!text.ok()) return About(path, text.status());
  auto header = internal::ParseSafetensorsHeader(*text, data_bytes);
  if (!header.ok()) return About(path, header.status());
  const absl::Status same = CheckSame(*header, *by_name);
  if (!same.ok()) return About(path, same);
  std::sort(header->tensors.begin(), header->tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  const std::string prefix = WritePrefix(text->size());
  std::vector<absl::string_view> parts = {prefix, *text};
  for (const auto& tensor : header->tensors) parts.push_back(by_name->at(tensor.name)->bytes);
  return WritePartsAtomically(path, parts);
}

}  // namespace dpipe
