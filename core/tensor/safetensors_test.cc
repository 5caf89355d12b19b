#include "core/tensor/safetensors.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kReference[] = "core/tensor/testdata/reference.safetensors";

std::string TestPath(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string WithPrefix(const std::string& header, size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return bytes + header + std::string(data_bytes, '\1');
}

std::string ErrorOf(const std::string& bytes) {
  const auto file = SafetensorsFile::FromBytes(bytes, "model.safetensors");
  if (file.ok()) return "no error";
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("model.safetensors: "));
  return std::string(file.status().message());
}

std::string ErrorOfHeader(const std::string& header, size_t data_bytes) {
  return ErrorOf(WithPrefix(header, data_bytes));
}

template <typename T>
std::vector<T> ValuesOf(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsView* view = file.Find(name);
  std::vector<T> values(view->bytes.size() / sizeof(T));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

TEST(SafetensorsTest, ReadsTheReferenceImplementationsFile) {
  const auto file = SafetensorsFile::Open(kReference);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 9u);
  EXPECT_THAT(file->metadata(), ElementsAre(testing::Pair("format", "pt")));
  const SafetensorsView* weight = file->Find("unet.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dtype, "F32");
  EXPECT_THAT(weight->shape, ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf<float>(*file, "unet.weight"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ValuesOf<uint16_t>(*file, "half"), ElementsAre(0x3f80, 0xc000, 0x4040));
  EXPECT_THAT(ValuesOf<int64_t>(*file, "position_ids"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ValuesOf<uint8_t>(*file, "mask"), ElementsAre(1, 0, 1));
  EXPECT_THAT(ValuesOf<double>(*file, "scalar"), ElementsAre(2.5));
  EXPECT_THAT(file->Find("scalar")->shape, IsEmpty());
  EXPECT_THAT(file->Find("empty")->shape, ElementsAre(0, 7));
  EXPECT_THAT(ValuesOf<int32_t>(*file, "\u00e9 \"quoted\"\n"), ElementsAre(7));
  EXPECT_EQ(file->Find("nothing"), nullptr);
}

TEST(SafetensorsTest, WritesTheSameFileAsTheReferenceImplementation) {
  const auto file = SafetensorsFile::Open(kReference);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<SafetensorsView> tensors = file->tensors();
  std::reverse(tensors.begin(), tensors.end());  // the input order does not matter
  const std::string path = TestPath("written.safetensors");
  const absl::Status status = WriteSafetensors(path, tensors);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(path).value(), ReadFile(kReference).value());
}

// This writer would choose another order, spacing and padding.
TEST(SafetensorsTest, HeaderTextMakesTheRoundTripExact) {
  const std::string bytes = WithPrefix(
      R"({"b":{"shape":[2], "dtype":"U8","data_offsets":[4,6]}, "__metadata__":{"z":"1","a":"2"},)"
      R"("a":{"dtype":"F32","data_offsets":[0,4],"shape":[1]}}   )",
      6);
  const auto file = SafetensorsFile::FromBytes(bytes, "odd");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_EQ(file->metadata()[0].first, "z");
  SafetensorsWriteOptions options;
  options.header_text = std::string(file->header_text());
  const std::string path = TestPath("odd.safetensors");
  const absl::Status status = WriteSafetensors(path, file->tensors(), options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(path).value(), bytes);
}

TEST(SafetensorsTest, ViewsLiveAsLongAsAnyCopyOfTheFile) {
  SafetensorsFile copy = SafetensorsFile::FromBytes(ReadFile(kReference).value(), "x").value();
  { const SafetensorsFile other = copy; }
  EXPECT_THAT(ValuesOf<double>(copy, "scalar"), ElementsAre(2.5));
}

TEST(SafetensorsTest, LengthsAreBounded) {
  EXPECT_THAT(ErrorOf("\x01\x02\x03\x04\x05\x06\x07"), HasSubstr("in a file of 7"));
  EXPECT_THAT(ErrorOf(std::string(8, '\xff') + "\x01{}"), HasSubstr("18446744073709551615 bytes"));
  std::string cut = WithPrefix("{\"a\":{}}", 0);
  cut.pop_back();
  EXPECT_THAT(ErrorOf(cut), HasSubstr("a header of 8 bytes in a file of 15"));
}

TEST(SafetensorsTest, FilesOfOtherKindsAreNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "an empty file, not a safetensors file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
       "a Git LFS pointer, not a safetensors file: the file itself was not downloaded; run git lfs "
       "pull"},
      {"<!DOCTYPE html><html>404</html>", "an HTML page, not a safetensors file: a web page"},
      {"1234567", "plain text, not a safetensors file"},
      {std::string(8, '\0'), "begins with zeros, not a safetensors file"},
      {"\x80\x02}q\x01X\x04", "not a safetensors file: convert it in Python: safetensors.torch."},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_THAT(ErrorOf(bytes), HasSubstr(expected));
    const std::string path = TestPath("other.safetensors");
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
    EXPECT_THAT(std::string(SafetensorsFile::Open(path).status().message()), HasSubstr(expected));
  }
}

TEST(SafetensorsTest, LongNamesAreCutInMessages) {
  const std::string name(100'000, 'n');
  EXPECT_LT(ErrorOfHeader("{\"" + name + "\":5}", 1).size(), 300u);
  EXPECT_LT(ErrorOfHeader("{\"a\":{\"" + name + "\":5}}", 1).size(), 300u);
  EXPECT_LT(
      ErrorOfHeader("{\"a\":{\"dtype\":\"" + name + "\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1)
          .size(),
      300u);
}

TEST(SafetensorsTest, TensorsMustFitTheData) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_EQ(ErrorOfHeader("{" + a + "}", 8), "no error");
  EXPECT_EQ(ErrorOfHeader("{}", 0), "no error");
  EXPECT_THAT(ErrorOfHeader("{" + a + "}", 7),
              HasSubstr("tensor \"a\": data_offsets [0, 8] are not inside the 7 bytes"));
  EXPECT_THAT(ErrorOfHeader("{" + a + "}", 9), HasSubstr("take 8 bytes, but the file has 9"));
  EXPECT_THAT(ErrorOfHeader(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\": F32 [3] takes 12 bytes, but data_offsets give it 8"));
  EXPECT_THAT(ErrorOfHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
              HasSubstr("data_offsets [8, 0]"));
  EXPECT_THAT(ErrorOfHeader(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("tensor \"a\": unknown dtype \"F33\""));
  const std::string b_overlaps = R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[6,10]}})";
  EXPECT_THAT(ErrorOfHeader("{" + a + b_overlaps, 10),
              HasSubstr("tensor \"b\" begins at byte 6, but \"a\" ends at byte 8"));
  const std::string b_leaves_hole = R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})";
  EXPECT_THAT(ErrorOfHeader("{" + a + b_leaves_hole, 10),
              HasSubstr("tensor \"b\" begins at byte 9, but \"a\" ends at byte 8"));
  EXPECT_THAT(ErrorOfHeader(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2),
              HasSubstr("begins at byte 1, but the data begins at byte 0"));
}

TEST(SafetensorsTest, ShapesCannotOverflow) {
  const auto with_shape = [](const std::string& shape) {
    return ErrorOfHeader(
        absl::StrCat(R"({"a":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,8]}})"), 8);
  };
  EXPECT_THAT(with_shape("[4294967296,4294967296]"), HasSubstr("impossible shape"));
  EXPECT_THAT(with_shape("[2305843009213693954]"), HasSubstr("impossible shape"));  // 2^61 + 2
  EXPECT_THAT(with_shape("[18446744073709551615]"), HasSubstr("too large"));
  EXPECT_THAT(with_shape("[-2]"), HasSubstr("number -2 is negative"));
  EXPECT_THAT(with_shape("[2.0]"), HasSubstr("number 2.0 is not an integer"));
  EXPECT_THAT(with_shape("[0,4294967296,4294967296]"), HasSubstr("takes 0 bytes"));
}

TEST(SafetensorsTest, HeadersMustHaveTheFormat) {
  const std::string fields = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "does not begin with {"},
      {"{", "not JSON"},
      {"{} {}", "not JSON"},
      {R"({"a":5})", "unexpected number"},
      {R"({"a":[]})", "unexpected array"},
      {R"({"a":{}})", "tensor \"a\": dtype, shape or data_offsets is missing"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "dtype, shape or data_offsets is missing"},
      {"{\"a\":{" + fields + ",\"x\":1}}", "tensor \"a\": unknown field \"x\""},
      {"{\"a\":{" + fields + ",\"dtype\":\"U8\"}}", "tensor \"a\": dtype occurs twice"},
      {"{\"a\":{" + fields + "},\"a\":{" + fields + "}}", "tensor \"a\" occurs twice"},
      {R"({"a":{"dtype":null}})", "unexpected null"},
      {R"({"a":{"shape":[[1]]}})", "unexpected array"},
      {R"({"a":{"shape":[{}]}})", "unexpected object"},
      {R"({"a":{"data_offsets":[0]}})", "data_offsets has 1 numbers, not 2"},
      {R"({"a":{"data_offsets":[0,1,2]}})", "data_offsets has 3 numbers, not 2"},
      {R"({"__metadata__":{"a":1}})", "unexpected number"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "metadata \"a\" occurs twice"},
      {R"({"__metadata__":"x"})", "unexpected string"},
      {"{\"\xff\":{" + fields + "}}", "not JSON"}};
  for (const auto& [header, expected] : cases) {
    EXPECT_THAT(ErrorOfHeader(header, 1), HasSubstr(expected)) << header;
  }
  // Nesting that would exhaust a recursive reader.
  EXPECT_THAT(ErrorOfHeader(R"({"a":)" + std::string(1 << 20, '['), 0),
              HasSubstr("unexpected array"));
}

TEST(SafetensorsTest, FilesThatCannotBeOpened) {
  EXPECT_EQ(SafetensorsFile::Open("/no/such").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::Open("/tmp").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string path = TestPath("empty.safetensors");
  ASSERT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_EQ(SafetensorsFile::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, WritingChecksItsTensors) {
  const std::string path = TestPath("never_written.safetensors");
  const auto error = [&path](const std::vector<SafetensorsView>& tensors,
                             const std::string& header_text = "") {
    SafetensorsWriteOptions options;
    options.header_text = header_text;
    return std::string(WriteSafetensors(path, tensors, options).message());
  };
  const SafetensorsView good = {"a", "U8", {2}, "xy"};
  EXPECT_THAT(error({{"a", "U8", {3}, "xy"}}),
              HasSubstr("tensor \"a\": U8 [3] takes 3 bytes, but 2 are given"));
  EXPECT_THAT(error({{"a", "u8", {2}, "xy"}}), HasSubstr("unknown dtype \"u8\""));
  EXPECT_THAT(error({{"a", "U8", {-2}, "xy"}}), HasSubstr("impossible shape U8 [-2]"));
  EXPECT_THAT(error({good, good}), HasSubstr("tensor \"a\": given twice"));
  EXPECT_THAT(error({{"__metadata__", "U8", {2}, "xy"}}), HasSubstr("reserved"));
  EXPECT_THAT(error({{"\xff", "U8", {2}, "xy"}}), HasSubstr("UTF-8"));
  const std::string header = R"({"a":{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]}})";
  EXPECT_THAT(error({good}, header),
              HasSubstr("tensor \"a\": U8 [1, 2] in the header, U8 [2] given"));
  EXPECT_THAT(error({{"b", "U8", {1, 2}, "xy"}}, header),
              HasSubstr("in the header, but was not given"));
  EXPECT_THAT(error({{"a", "U8", {1, 2}, "xy"}, {"b", "U8", {0}, ""}}, header),
              HasSubstr("the header has 1 tensors, 2 are given"));
  EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kNotFound);
}

// Any bytes give either an error or a file whose views are inside the bytes.
TEST(SafetensorsTest, FlippedBytesDoNoHarm) {
  const std::string good = ReadFile(kReference).value();
  int num_errors = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    RandomStream random(41, trial, 0, RandomPurpose::kTest);
    std::string damaged = good;
    for (int flips = 1 + random.NextBelow(3); flips > 0; --flips) {
      damaged[random.NextBelow(damaged.size())] ^= 1 << random.NextBelow(8);
    }
    if (trial % 7 == 0) damaged.resize(random.NextBelow(damaged.size()));
    const auto file = SafetensorsFile::FromBytes(damaged, "damaged");
    num_errors += !file.ok();
    if (!file.ok()) continue;
    size_t sum = 8 + file->header_text().size();
    for (const SafetensorsView& view : file->tensors()) sum += view.bytes.size();
    EXPECT_EQ(sum, damaged.size());
  }
  EXPECT_GT(num_errors, 2500);
}

}  // namespace
}  // namespace dpipe
