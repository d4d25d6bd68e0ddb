# The C functions that `kernel.py` calls in its compiled form: values from bytes and back without a Python call for
# each.

from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static unsigned char *lacuna_view_data(PyObject *view, Py_ssize_t *size)
    {
        Py_buffer *buffer = PyMemoryView_Check(view) ? PyMemoryView_GET_BUFFER(view) : NULL;

        if (buffer == NULL || buffer->itemsize != 1 || !PyBuffer_IsContiguous(buffer, 'C')) {
            PyErr_SetString(PyExc_TypeError, "a message is read from a contiguous memoryview of bytes");
            return NULL;
        }
        *size = buffer->len;
        return (unsigned char *)buffer->buf;
    }

    static inline uint64_t lacuna_bits(const unsigned char *from, int width)
    {
        uint64_t bits = 0;
        for (int i = 0; i < width; i++)
            bits = bits << 8 | from[i];
        return bits;
    }

    static inline void lacuna_put_bits(unsigned char *to, uint64_t bits, int width)
    {
        for (int i = width - 1; i >= 0; i--, bits >>= 8)
            to[i] = (unsigned char)bits;
    }

    /* The numbers of kernel.py's kinds. */
    static PyObject *lacuna_number(const unsigned char *from, int kind)
    {
        double real;
        uint64_t bits;

        switch (kind) {
        case 1: return PyBool_FromLong(from[0]);
        case 2: return PyLong_FromLong((int8_t)from[0]);
        case 3: return PyLong_FromLong((int16_t)lacuna_bits(from, 2));
        case 4: return PyLong_FromLong((long)lacuna_bits(from, 2));
        case 5: return PyLong_FromLong((int32_t)lacuna_bits(from, 4));
        case 6: return PyLong_FromLongLong((long long)lacuna_bits(from, 4));
        case 7: return PyLong_FromLongLong((int64_t)lacuna_bits(from, 8));
        case 8:
            bits = lacuna_bits(from, 8);
            memcpy(&real, &bits, 8);
            return PyFloat_FromDouble(real);
        default: return PyBytes_FromStringAndSize((const char *)from, 16);
        }
    }

    static int lacuna_put_integer(
        unsigned char *to, PyObject *value, int width, long long least, long long most)
    {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            return -1;
        if (number < least || number > most) {
            PyErr_Format(PyExc_OverflowError, "%lld does not fit %d bytes", number, width);
            return -1;
        }
        lacuna_put_bits(to, (uint64_t)number, width);
        return 0;
    }

    static int lacuna_put_number(unsigned char *to, int kind, PyObject *value)
    {
        double real;
        uint64_t bits;

        switch (kind) {
        case 1: {
            int truth = PyObject_IsTrue(value);
            if (truth < 0)
                return -1;
            to[0] = (unsigned char)truth;
            return 0;
        }
        case 2: return lacuna_put_integer(to, value, 1, INT8_MIN, INT8_MAX);
        case 3: return lacuna_put_integer(to, value, 2, INT16_MIN, INT16_MAX);
        case 4: return lacuna_put_integer(to, value, 2, 0, UINT16_MAX);
        case 5: return lacuna_put_integer(to, value, 4, INT32_MIN, INT32_MAX);
        case 6: return lacuna_put_integer(to, value, 4, 0, UINT32_MAX);
        case 7: return lacuna_put_integer(to, value, 8, INT64_MIN, INT64_MAX);
        case 8:
            real = PyFloat_AsDouble(value);
            if (real == -1.0 && PyErr_Occurred())
                return -1;
            memcpy(&bits, &real, 8);
            lacuna_put_bits(to, bits, 8);
            return 0;
        default:
            if (!PyBytes_Check(value) || PyBytes_GET_SIZE(value) != 16) {
                PyErr_SetString(PyExc_ValueError, "an id must have 16 bytes");
                return -1;
            }
            memcpy(to, PyBytes_AS_STRING(value), 16);
            return 0;
        }
    }

    /* Return an instance of a named tuple whose fields are still to be set. */
    static inline PyObject *lacuna_new_row(PyObject *make, Py_ssize_t count)
    {
        return ((PyTypeObject *)make)->tp_alloc((PyTypeObject *)make, count);
    }

    static inline void lacuna_set_field(PyObject *row, Py_ssize_t i, PyObject *value)
    {
        PyObject *old = PyTuple_GET_ITEM(row, i);
        Py_INCREF(value);
        PyTuple_SET_ITEM(row, i, value);
        Py_XDECREF(old);
    }

    /* Return the index of the field that a keyword names, or -1. Both strings are almost always interned. */
    static Py_ssize_t lacuna_field_named(PyObject *fields, PyObject *name)
    {
        Py_ssize_t count = PyTuple_GET_SIZE(fields);

        for (Py_ssize_t i = 0; i < count; i++)
            if (PyTuple_GET_ITEM(fields, i) == name)
                return i;
        for (Py_ssize_t i = 0; i < count; i++)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(fields, i), name) == 0)
                return i;
        return -1;
    }

    /* Return a named tuple with the arguments of a call to its class, whose tp_vectorcall this is. */
    static PyObject *lacuna_make_row(
        PyObject *make, PyObject *const *given, size_t flags, PyObject *names)
    {
        static PyObject *fields_name, *defaults_name;
        if (fields_name == NULL) {
            fields_name = PyUnicode_InternFromString("_fields");
            defaults_name = PyUnicode_InternFromString("_defaults");
        }
        PyTypeObject *type = (PyTypeObject *)make;
        PyObject *fields = PyDict_GetItem(type->tp_dict, fields_name);
        PyObject *defaults = PyDict_GetItem(type->tp_dict, defaults_name);
        Py_ssize_t count = PyTuple_GET_SIZE(fields);
        Py_ssize_t positions = PyVectorcall_NARGS(flags);
        Py_ssize_t keywords = names == NULL ? 0 : PyTuple_GET_SIZE(names);

        if (positions > count) {
            PyErr_Format(PyExc_TypeError, "%s has %zd fields, not %zd", type->tp_name, count, positions);
            return NULL;
        }
        PyObject *row = type->tp_alloc(type, count);
        if (row == NULL)
            return NULL;
        for (Py_ssize_t i = 0; i < positions; i++)
            PyTuple_SET_ITEM(row, i, Py_NewRef(given[i]));
        for (Py_ssize_t k = 0; k < keywords; k++) {
            PyObject *name = PyTuple_GET_ITEM(names, k);
            Py_ssize_t i = lacuna_field_named(fields, name);
            if (i < 0 || PyTuple_GET_ITEM(row, i) != NULL) {
                PyErr_Format(
                    PyExc_TypeError, i < 0 ? "%s has no field %R" : "%s is given %R twice", type->tp_name, name);
                Py_DECREF(row);
                return NULL;
            }
            PyTuple_SET_ITEM(row, i, Py_NewRef(given[positions + k]));
        }
        for (Py_ssize_t i = 0; i < count; i++)
            if (PyTuple_GET_ITEM(row, i) == NULL)
                PyTuple_SET_ITEM(row, i, Py_NewRef(PyTuple_GET_ITEM(defaults, i)));
        return row;
    }

    /* Let a thread that is waiting for the interpreter's lock run. */
    static void lacuna_breathe(void)
    {
        PyThreadState *state = PyEval_SaveThread();
        PyEval_RestoreThread(state);
    }

    static void lacuna_set_maker(PyObject *make)
    {
        ((PyTypeObject *)make)->tp_vectorcall = lacuna_make_row;
    }
    """
    unsigned char *view_data "lacuna_view_data"(object view, Py_ssize_t *size) except? NULL
    object get_number "lacuna_number"(const unsigned char *data, int kind)
    int put_number "lacuna_put_number"(unsigned char *to, int kind, object value) except -1
    object new_row "lacuna_new_row"(object make, Py_ssize_t count)
    void set_field "lacuna_set_field"(object row, Py_ssize_t i, object value)
    void set_maker "lacuna_set_maker"(object make)
    void breathe "lacuna_breathe"()

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyBytes_FromStringAndSize(const char *data, Py_ssize_t size)
    void *PyMem_Realloc(void *data, size_t size)
    void PyMem_Free(void *data)
