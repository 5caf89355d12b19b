#include "core/tensor/safetensors_header.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text/show.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace internal {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxBytes = int64_t{1} << 62;

// In the order of the reference implementation's DType enumeration.
constexpr struct {
  const char* name;
  int bytes;
} kDtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
               {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
               {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
constexpr int kNumDtypes = sizeof(kDtypes) / sizeof(kDtypes[0]);

// SAX handler that builds only what the format allows, so a hostile text cannot make a deep or
// large tree. A member that returns false ends the parse.
class HeaderHandler {
 public:
  HeaderHandler(SafetensorsHeader& header) : header_(header) {}

  bool start_object(size_t) {
    if (place_ == Place::kStart) return Go(Place::kTop);
    if (place_ == Place::kMetadataValue) return Go(Place::kMetadata);
    if (place_ == Place::kTensorValue) return Go(Place::kTensor);
    return Unexpected("object");
  }
  bool end_object() {
    if (place_ == Place::kTop) return Go(Place::kEnd);
    if (place_ == Place::kTensor && seen_ != kAllFields) {
      return Fail("dtype, shape or data_offsets is missing");
    }
    tensor_name_.clear();
    return Go(Place::kTop);
  }
  bool key(std::string& text) {
    if (place_ == Place::kTop) return BeginEntry(text);
    if (place_ == Place::kMetadata) {
      if (!metadata_keys_.insert(text).second)
        return Fail("metadata \"", ShowText(text), "\" occurs twice");
      header_.metadata.push_back({text, ""});
      return Go(Place::kMetadataText);
    }
    static const std::pair<const char*, Place> kFields[] = {{"dtype", Place::kDtype},
                                                            {"shape", Place::kShapeValue},
                                                            {"data_offsets", Place::kOffsetsValue}};
    for (int i = 0; i < kNumFields; ++i) {
      if (text != kFields[i].first) continue;
      if (seen_ & (1 << i)) return Fail(text, " occurs twice");
      seen_ |= 1 << i;
      return Go(kFields[i].second);
    }
    return Fail("unknown field \"", ShowText(text), "\"");
  }
  bool string(std::string& text) {
    if (place_ == Place::kMetadataText) {
      header_.metadata.back().second = text;
      return Go(Place::kMetadata);
    }
    if (place_ != Place::kDtype) return Unexpected("string");
    header_.tensors.back().dtype = text;
    return Go(Place::kTensor);
  }
  bool start_array(size_t) {
    if (place_ == Place::kShapeValue) return Go(Place::kShape);
    if (place_ == Place::kOffsetsValue) return Go(Place::kOffsets);
    return Unexpected("array");
  }
  bool end_array() {
    if (place_ == Place::kOffsets) {
      if (num_offsets_ != 2) return Fail("data_offsets has ", num_offsets_, " numbers, not 2");
      header_.tensors.back().begin = offsets_[0];
      header_.tensors.back().end = offsets_[1];
    }
    return Go(Place::kTensor);
  }
  bool number_unsigned(uint64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return Unexpected("number");
    if (value > static_cast<uint64_t>(kMaxBytes)) return Fail("number ", value, " is too large");
    if (place_ == Place::kShape) {
      header_.tensors.back().shape.push_back(static_cast<int64_t>(value));
    } else if (num_offsets_++ < 2) {
      offsets_[num_offsets_ - 1] = static_cast<int64_t>(value);
    }
    return true;
  }
  bool number_integer(int64_t value) { return Fail("number ", value, " is negative"); }
  bool number_float(double, const std::string& text) {
    return Fail("number ", text.substr(0, 40), " is not an integer");
  }
  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("boolean"); }
  bool binary(Json::binary_t&) { return Unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return Fail("header: not JSON at byte ", position);
  }

  absl::Status status() const { return status_; }

 private:
  enum class Place {
    kStart,
    kTop,
    kEnd,
    kMetadataValue,
    kMetadata,
    kMetadataText,
    kTensorValue,
    kTensor,
    kDtype,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
  };
  static constexpr int kNumFields = 3;
  static constexpr int kAllFields = (1 << kNumFields) - 1;

  bool BeginEntry(const std::string& name) {
    if (!names_.insert(name).second) return Fail("tensor \"", ShowText(name), "\" occurs twice");
    if (name == "__metadata__") return Go(Place::kMetadataValue);
    header_.tensors.emplace_back();
    header_.tensors.back().name = tensor_name_ = name;
    seen_ = 0;
    num_offsets_ = 0;
    return Go(Place::kTensorValue);
  }
  bool Go(Place place) {
    place_ = place;
    return true;
  }
  template <typename... Parts>
  bool Fail(const Parts&... parts) {
    const std::string prefix =
        tensor_name_.empty() ? "" : absl::StrCat("tensor \"", ShowText(tensor_name_), "\": ");
    status_ = absl::InvalidArgumentError(absl::StrCat(prefix, parts...));
    return false;
  }
  bool Unexpected(const char* what) { return Fail("header: unexpected ", what); }

  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_keys_;
  std::string tensor_name_;
  int seen_ = 0;  // fields seen of the current tensor, as bits
  std::array<int64_t, 2> offsets_ = {};
  int num_offsets_ = 0;
  absl::Status status_;
};

absl::Status CheckTensor(const SafetensorsHeader::Tensor& tensor, int64_t data_bytes) {
  const auto error = [&tensor](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", ShowText(tensor.name), "\": ", parts...));
  };
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    return error("data_offsets [", tensor.begin, ", ", tensor.end, "] are not inside the ",
                 data_bytes, " bytes of data");
  }
  const auto expected = SafetensorsBytes(tensor.dtype, tensor.shape);
  if (!expected.ok()) return error(expected.status().message());
  if (*expected == tensor.end - tensor.begin) return absl::OkStatus();
  return error(DescribeTensor(tensor.dtype, tensor.shape), " takes ", *expected,
               " bytes, but data_offsets give it ", tensor.end - tensor.begin);
}

// Checks that the tensors, sorted by offset, fill the data without gap or overlap.
absl::Status CheckCoverage(const std::vector<SafetensorsHeader::Tensor>& tensors,
                           int64_t data_bytes) {
  std::vector<const SafetensorsHeader::Tensor*> sorted;
  for (const auto& tensor : tensors) sorted.push_back(&tensor);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  int64_t covered = 0;
  const std::string* last = nullptr;
  for (const auto* tensor : sorted) {
    if (tensor->begin != covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", ShowText(tensor->name), "\" begins at byte ", tensor->begin, ", but ",
          last == nullptr ? std::string("the data begins")
                          : absl::StrCat("\"", ShowText(*last), "\" ends"),
          " at byte ", covered));
    }
    covered = tensor->end;
    last = &tensor->name;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the tensors take ", covered, " bytes, but the file has ", data_bytes, " bytes of data"));
}

}  // namespace

int SafetensorsDtypeRank(absl::string_view dtype) {
  for (int rank = 0; rank < kNumDtypes; ++rank) {
    if (dtype == kDtypes[rank].name) return rank;
  }
  return -1;
}

std::string DescribeTensor(absl::string_view dtype, const std::vector<int64_t>& shape) {
  return absl::StrCat(dtype, " [", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<int64_t> SafetensorsBytes(absl::string_view dtype,
                                         const std::vector<int64_t>& shape) {
  int64_t bytes = SafetensorsElementBytes(dtype);
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("unknown dtype \"", ShowText(dtype), "\""));
  }
  bool is_empty = false;
  for (const int64_t size : shape) is_empty |= size == 0;
  for (const int64_t size : shape) {
    if (size < 0 || (!is_empty && size > kMaxBytes / bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("impossible shape ", ShowText(DescribeTensor(dtype, shape))));
    }
    if (!is_empty) bytes *= size;
  }
  return is_empty ? 0 : bytes;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes) {
  if (text.empty() || text[0] != '{') {
    return absl::InvalidArgumentError("header: does not begin with {");
  }
  SafetensorsHeader header;
  HeaderHandler handler(header);
  const bool complete = Json::sax_parse(text.begin(), text.end(), &handler);
  DPIPE_RETURN_IF_ERROR(handler.status());
  if (!complete) return absl::InvalidArgumentError("header: not JSON");
  for (const auto& tensor : header.tensors) {
    DPIPE_RETURN_IF_ERROR(CheckTensor(tensor, data_bytes));
  }
  DPIPE_RETURN_IF_ERROR(CheckCoverage(header.tensors, data_bytes));
  return header;
}

absl::StatusOr<std::string> FormatSafetensorsHeader(const SafetensorsHeader& header) {
  absl::Status status;
  const auto quoted = [&status](const std::string& text) {
    // `ignore` drops bytes that are not UTF-8, so such text does not survive the round trip.
    const std::string json = Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore);
    if (Json::parse(json) != text) {
      status = absl::InvalidArgumentError("a name or metadata is not UTF-8");
    }
    return json;
  };
  std::string text = "{";
  const char* comma = "";
  if (!header.metadata.empty()) {
    absl::StrAppend(&text, "\"__metadata__\":{");
    for (const auto& [key, value] : header.metadata) {
      absl::StrAppend(&text, comma, quoted(key), ":", quoted(value));
      comma = ",";
    }
    absl::StrAppend(&text, "}");
  }
  for (const auto& tensor : header.tensors) {
    absl::StrAppend(&text, comma, quoted(tensor.name), ":{\"dtype\":\"", tensor.dtype,
                    "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[",
                    tensor.begin, ",", tensor.end, "]}");
    comma = ",";
  }
  text += "}";
  DPIPE_RETURN_IF_ERROR(status);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace internal

int64_t SafetensorsElementBytes(absl::string_view dtype) {
  const int rank = internal::SafetensorsDtypeRank(dtype);
  return rank < 0 ? 0 : internal::kDtypes[rank].bytes;
}

}  // namespace dpipe
