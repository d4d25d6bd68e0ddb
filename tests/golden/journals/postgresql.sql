--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: lacuna; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA lacuna;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: appends; Type: TABLE; Schema: lacuna; Owner: -
--

CREATE TABLE lacuna.appends (
    first bigint NOT NULL,
    last bigint NOT NULL,
    crc bigint NOT NULL,
    records bytea NOT NULL
);


--
-- Name: journal; Type: TABLE; Schema: lacuna; Owner: -
--

CREATE TABLE lacuna.journal (
    is_only_row boolean DEFAULT true NOT NULL,
    format_version integer NOT NULL,
    cluster_id text NOT NULL,
    trimmed bigint NOT NULL,
    CONSTRAINT journal_is_only_row_check CHECK (is_only_row)
);


--
-- Name: leader; Type: TABLE; Schema: lacuna; Owner: -
--

CREATE TABLE lacuna.leader (
    is_only_row boolean DEFAULT true NOT NULL,
    epoch bigint NOT NULL,
    address text,
    CONSTRAINT leader_is_only_row_check CHECK (is_only_row)
);


--
-- Name: renewals; Type: SEQUENCE; Schema: lacuna; Owner: -
--

CREATE SEQUENCE lacuna.renewals
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: snapshots; Type: TABLE; Schema: lacuna; Owner: -
--

CREATE TABLE lacuna.snapshots (
    "position" bigint NOT NULL,
    part integer NOT NULL,
    parts integer NOT NULL,
    crc bigint NOT NULL,
    state bytea NOT NULL
);


--
-- Data for Name: appends; Type: TABLE DATA; Schema: lacuna; Owner: -
--

INSERT INTO lacuna.appends VALUES (22, 22, 2639953774, '\xb100000008dee8a290a134f201a6010a040801100510e3011a8d010a120a1068c7aafdc0e4986bda919d6190b0a78f10052a47010000000000000005000000000000003700000000000000480000000400000000000000050000000000000059b30812a201000001000000000000000000040000000000000000322c01000000000000000000000004000000040000000400000000000000ffffffffffffffff59b30812a2010000220b12091201001a0108220101');


--
-- Data for Name: journal; Type: TABLE DATA; Schema: lacuna; Owner: -
--

INSERT INTO lacuna.journal VALUES (true, 1, 'bqwL78qekq5rkJSrLp-9nw', 21);


--
-- Data for Name: leader; Type: TABLE DATA; Schema: lacuna; Owner: -
--

INSERT INTO lacuna.leader VALUES (true, 1, '127.0.0.1:35221');


--
-- Name: renewals; Type: SEQUENCE SET; Schema: lacuna; Owner: -
--

SELECT pg_catalog.setval('lacuna.renewals', 1, true);


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: lacuna; Owner: -
--

INSERT INTO lacuna.snapshots VALUES (21, 0, 1, 230528371, '\x0a166271774c373871656b7135726b4a53724c702d396e7710dae6a290a1341803200228023003380540015211080112093132372e302e302e31188de8025a4c0801100118ffffffffffffffffff012204020406082a0b12091201001a01002201012a0b12091201001a01042201012a0b12091201001a01062201012a0b12091201001a010022010130a84672a6010a1c0a1068c7aafdc0e4986bda919d6190b0a78f12066f72646572731801128501100720042a490a0302020212030204061a036e6e6e22069a018a018a012a0300040632030406083a12bcafc5a0c268d6b3c5a0c26892b9c5a0c26842030202024a0300000052030204065a030000003201043a01065201025a01006206d8bec5a0c2686a06d2bec5a0c2687201037a030004068201030204068a010300040692010301010172740a1b0a1000f285f232f68a8f0bb36f2de225b89b1205706c61696e18011255100220032a270a01021201081a016e2202b6012a01003201063a06dcbec5a0c2684201014a01015201005a01005201045a01006206dcbec5a0c2686a06f4cac5a0c2687201017a0100820101048a010100920101017a680a056669727374100120ffffffffffffffffff0128ffffffffffffffffff0130e0d4033a074f6e676f696e67400448dae6a290a13450dae6a290a13458ffffffffffffffffff0160ffffffffffffffffff017a140a120a1068c7aafdc0e4986bda919d6190b0a78f8201220a04020202021204020406081a08d003c003c003ec032204020202022a04010101018a0100a2064e0a1c0a077265616465727310021a08636f6e73756d657238d7e6a290a134122c0a077265616465727312210a160a120a1068c7aafdc0e4986bda919d6190b0a78f100410d7e6a290a13418022002');
INSERT INTO lacuna.snapshots VALUES (22, 0, 1, 1203230798, '\x0a166271774c373871656b7135726b4a53724c702d396e7710dee8a290a1341803200228023003380540015211080112093132372e302e302e31188de8025a5a0801100118ffffffffffffffffff012205020406080a2a0b12091201001a01002201012a0b12091201001a01042201012a0b12091201001a01062201012a0b12091201001a01002201012a0b12091201001a010822010130a84672c3010a1c0a1068c7aafdc0e4986bda919d6190b0a78f12066f7264657273180112a201100820052a5a0a040202020212040204060a1a046e6e6e6e22089a018a018a0190012a040004060832040406080a3a18bcafc5a0c268d6b3c5a0c26892b9c5a0c268b2cdc5a0c2684204020202024a04000000005204020406085a04000000003201043a01065201025a01006206b2cdc5a0c2686a06bcd1c5a0c2687201047a0400040608820104020406088a01040004060892010401010101a2010102aa01010872740a1b0a1000f285f232f68a8f0bb36f2de225b89b1205706c61696e18011255100220032a270a01021201081a016e2202b6012a01003201063a06dcbec5a0c2684201014a01015201005a01005201045a01006206dcbec5a0c2686a06f4cac5a0c2687201017a0100820101048a010100920101017a6c0a056669727374100120ffffffffffffffffff0128ffffffffffffffffff0130e0d4033a074f6e676f696e67400448dae6a290a13450dae6a290a13458ffffffffffffffffff0160ffffffffffffffffff017a180a120a1068c7aafdc0e4986bda919d6190b0a78f1202080a8201280a0502020202021205020406080a1a0ad003c003c003ec03c603220502020202022a0501010101018a0100a2064e0a1c0a077265616465727310021a08636f6e73756d657238d7e6a290a134122c0a077265616465727312210a160a120a1068c7aafdc0e4986bda919d6190b0a78f100410d7e6a290a13418022002');


--
-- Name: appends appends_pkey; Type: CONSTRAINT; Schema: lacuna; Owner: -
--

ALTER TABLE ONLY lacuna.appends
    ADD CONSTRAINT appends_pkey PRIMARY KEY (first);


--
-- Name: journal journal_pkey; Type: CONSTRAINT; Schema: lacuna; Owner: -
--

ALTER TABLE ONLY lacuna.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (is_only_row);


--
-- Name: leader leader_pkey; Type: CONSTRAINT; Schema: lacuna; Owner: -
--

ALTER TABLE ONLY lacuna.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (is_only_row);


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: lacuna; Owner: -
--

ALTER TABLE ONLY lacuna.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY ("position", part);


--
-- PostgreSQL database dump complete
--


