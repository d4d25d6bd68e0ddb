package lacuna;

import java.io.DataInputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;

/** One request on a connection of its own, built from the client's own protocol classes. */
final class Wire {
    private Wire() {}

    static AbstractResponse send(Env env, AbstractRequest request) throws Exception {
        String[] address = env.bootstrap.split(",")[0].split(":");
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "wire", 1);
        ByteBuffer body = RequestUtils.serialize(header.data(), header.headerVersion(), request.data(), request.version());
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.setSoTimeout(15000);
            byte[] bytes = new byte[body.remaining()];
            body.get(bytes);
            socket.getOutputStream().write(ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = in.readNBytes(in.readInt());
            return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
        }
    }

    static EndTxnResponse endTxn(Env env, String id, long producerId, int epoch, boolean commit, int version)
            throws Exception {
        EndTxnRequestData data = new EndTxnRequestData()
            .setTransactionalId(id).setProducerId(producerId).setProducerEpoch((short) epoch).setCommitted(commit);
        short number = (short) version;
        return (EndTxnResponse) send(env, new EndTxnRequest.Builder(data, false, number > 4).build(number));
    }
}

