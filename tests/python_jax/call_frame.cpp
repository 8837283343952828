// Calls an XLA FFI handler as XLA does on a GPU: with the addresses, attributes and stream that a test gives it. Knows
// XLA's C API.
#include <cstdint>
#include <string>
#include <vector>
#include <xla/ffi/api/c_api.h>

struct XLA_FFI_Error {
  std::string message;
};
struct XLA_FFI_ExecutionContext {
  void* stream;
};

namespace {

XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->message};
}
void read_message(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->message.c_str();
}
void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }
XLA_FFI_Error* find_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = args->ctx->stream;
  return nullptr;
}

XLA_FFI_Api make_api() {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                     XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = create_error;
  api.XLA_FFI_Error_GetMessage = read_message;
  api.XLA_FFI_Error_Destroy = destroy_error;
  api.XLA_FFI_Stream_Get = find_stream;
  return api;
}

// The pointers to elements by which XLA's structs know an array.
template <class T>
std::vector<void*> pointers_to(std::vector<T>& elements) {
  std::vector<void*> pointers;
  for (T& element : elements) pointers.push_back(&element);
  return pointers;
}

}  // namespace

extern "C" {

struct TestBuffer {
  int32_t dtype, rank;
  void* data;
  int64_t* dims;
};

// An array; without `is_array`, its first element; without a dtype, a text of `size` bytes.
struct TestAttribute {
  const char* name;
  int32_t dtype, is_array;
  void* data;
  uint64_t size;
};

// Attributes are sorted by name. Returns NULL, or the handler's message, which is valid until the next call.
const char* call_handler(XLA_FFI_Handler* handler, void* stream, const TestBuffer* buffers,
                         size_t operands, size_t results, const TestAttribute* attributes,
                         size_t attribute_count) {
  static const XLA_FFI_Api api = make_api();
  static std::string message;
  XLA_FFI_ExecutionContext context{stream};
  std::vector<XLA_FFI_Buffer> arrays;
  for (size_t i = 0; i < operands + results; ++i) {
    const TestBuffer& b = buffers[i];
    arrays.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(b.dtype),
                      b.data, b.rank, b.dims});
  }
  std::vector<void*> addresses = pointers_to(arrays);
  std::vector<XLA_FFI_ArgType> operand_types(operands, XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> result_types(results, XLA_FFI_RetType_BUFFER);

  std::vector<XLA_FFI_ByteSpan> names, texts(attribute_count);
  std::vector<XLA_FFI_Scalar> scalars(attribute_count);
  std::vector<XLA_FFI_Array> lists(attribute_count);
  std::vector<XLA_FFI_AttrType> types;
  std::vector<void*> values;
  for (size_t i = 0; i < attribute_count; ++i) {
    const TestAttribute& a = attributes[i];
    auto dtype = static_cast<XLA_FFI_DataType>(a.dtype);
    names.push_back({a.name, std::string(a.name).size()});
    texts[i] = {static_cast<const char*>(a.data), a.size};
    scalars[i] = {dtype, a.data};
    lists[i] = {dtype, a.size, a.data};
    bool text = dtype == XLA_FFI_DataType_INVALID, list = a.is_array != 0;
    types.push_back(text   ? XLA_FFI_AttrType_STRING
                    : list ? XLA_FFI_AttrType_ARRAY
                           : XLA_FFI_AttrType_SCALAR);
    values.push_back(text   ? static_cast<void*>(&texts[i])
                     : list ? static_cast<void*>(&lists[i])
                            : &scalars[i]);
  }
  std::vector<XLA_FFI_ByteSpan*> name_pointers;
  for (XLA_FFI_ByteSpan& name : names) name_pointers.push_back(&name);

  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.ctx = &context;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<int64_t>(operands),
                operand_types.data(), addresses.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<int64_t>(results),
                result_types.data(), addresses.data() + operands};
  frame.attrs = {
      XLA_FFI_Attrs_STRUCT_SIZE, nullptr,      static_cast<int64_t>(attribute_count), types.data(),
      name_pointers.data(),      values.data()};
  XLA_FFI_Error* error = handler(&frame);
  if (error == nullptr) return nullptr;
  message = error->message;
  delete error;
  return message.c_str();
}
}
